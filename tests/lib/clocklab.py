# SPDX-License-Identifier: BSD-2-Clause
"""What the clock's tests and its benchmark share: the observer of true errors, loads that fill all links equally,
the CPU time of daemons."""
import json
import os
import subprocess
import time

import labtest
from fabrictruth import Fabric

TRUE_ERROR = os.path.join(labtest.BUILD, "tests", "tools", "true_error")
LOAD_PORT = 9
TCP_PORT = 9009
TCP_SINK = """
import socket, threading
def drain(c):
    room = bytearray(1 << 18)
    while c.recv_into(room):
        pass
s = socket.create_server(("", %d))
while True:
    threading.Thread(target=drain, args=(s.accept()[0],), daemon=True).start()
"""
TCP_SOURCE = """
import socket
s = socket.create_connection(("%s", %d))
b = bytes(1 << 16)
while True:
    s.sendall(b)
"""


def path_of(lab, *parts):
    return os.path.join("/run/escapement-lab", lab.name, *parts)


def append_config(lab, text):
    """Before `start`: appends @text to every host's configuration."""
    for host in lab.status()["hosts"]:
        with open(path_of(lab, host["name"], "escapement.yaml"), "a", encoding="ascii") as out:
            out.write(text)


def give_key(lab, key):
    """Before `start`: another key of the fleet; None: none."""
    for host in lab.status()["hosts"]:
        if key is not None:
            with open(path_of(lab, host["name"], "fleet.key"), "wb") as out:
                out.write(key)
            continue
        path = path_of(lab, host["name"], "escapement.yaml")
        with open(path, encoding="ascii") as file:
            lines = [line for line in file if not line.startswith("key_file:")]
        with open(path, "w", encoding="ascii") as out:
            out.writelines(lines)


def fabric_of(lab):
    return Fabric(lab.status()["hosts"], path_of(lab))


def wait_synced(lab, seconds=60):
    fabric = fabric_of(lab)
    return labtest.wait_for(fabric.synced, seconds)


def watch(lab, seconds, *options, names=None):
    """true_error over the lab's hosts, in the background."""
    words = [f"{h['name']}:{h['clock_offset_ns']}:{h['clock_drift_ppb']}:"
             + path_of(lab, h["name"], "run", "clock")
             for h in lab.status()["hosts"] if names is None or h["name"] in names]
    return subprocess.Popen([TRUE_ERROR, "--seconds", str(seconds), *options, *words],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def result(watcher):
    out, _ = watcher.communicate()
    if watcher.returncode:
        raise RuntimeError(f"true_error: exit {watcher.returncode}")
    return json.loads(out)


def watched(lab, seconds, *options):
    return result(watch(lab, seconds, *options))


def spines_of(lab, source, target, first, count, *options):
    """{source port: the spine, or the leaf if both hosts are on it}."""
    out = lab("path", source, target, "--sport", f"{first}-{first + count - 1}", "-j", *options)
    return {path["sport"]: path["via"] for path in json.loads(out)}


def ring(lab):
    """Each host and one on the next leaf: every uplink has the same number in each direction."""
    hosts = lab.status()["hosts"]
    leaves = sorted({h["leaf"] for h in hosts}, key=lambda name: int(name[4:]))
    at = {leaf: [h["name"] for h in hosts if h["leaf"] == leaf] for leaf in leaves}
    for i, leaf in enumerate(leaves):
        next_leaf = at[leaves[(i + 1) % len(leaves)]]
        for k, name in enumerate(at[leaf]):
            yield name, next_leaf[k % len(next_leaf)]


def fill(lab, bits_per_host, size=1400):
    """Paced UDP from every host to the next leaf, half of it over each of two spines."""
    for source, target in ring(lab):
        spines = spines_of(lab, source, target, 20000, 40, "--dport", str(LOAD_PORT))
        first = next(p for p in spines if p + 1 in spines and spines[p] != spines[p + 1])
        lab("load", source, target, str(int(bits_per_host)), "--flows", "2", "--sport", str(first),
            "--size", str(size))


def fill_end(lab):
    lab("load", "stop")


class Flood:
    """TCP at the highest rate between pairs of hosts: a standing queue before every full link."""

    def __init__(self, lab, pairs):
        self.running = []
        for _, target in pairs:
            self.running.append(lab.start(target, "/usr/bin/python3", "-c", TCP_SINK % TCP_PORT))
        time.sleep(0.5)
        for source, target in pairs:
            self.running.append(lab.start(source, "/usr/bin/python3", "-c",
                                          TCP_SOURCE % (lab.host(target)["address"], TCP_PORT)))

    def end(self):
        for child in self.running:
            child.kill()
        for child in self.running:
            child.communicate()


def cpu_seconds(pid):
    """User and system time of a process and its threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as text:
        fields = text.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def daemons(lab):
    """{host: pid}"""
    return {h["name"]: h["pid"] for h in lab.status()["hosts"] if "pid" in h}


def counter(lab, node, interface, name):
    out = lab.good(node, "cat", f"/sys/class/net/{interface}/statistics/{name}")
    return int(out)
