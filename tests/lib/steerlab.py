# SPDX-License-Identifier: BSD-2-Clause
"""What the lab's tests of steering share: traffic from h1 to h2 that goes on, which spine takes it,
spines that lose packets in silence, captures."""
import contextlib
import json
import os
import re
import signal

import labtest

QPS = 4
LEAF = {"h1": 1, "h2": 2}


def flowing(lab, rate="8m", silence_ms=4, qps=QPS):
    """h1 -> h2 until it is ended."""
    return labtest.Flow(lab, "--interface", "eth1", "--qps", str(qps), "--qp-rate", rate, "--seconds", "3600",
                        "--op", "write", "--give-up", "60", server_options=("--silence", str(silence_ms)))


def rows(lab, host):
    return [row for row in lab.json(host, "qp")["qps"]
            if row["direction"] == "tx" and row.get("rate_bps", 1)]


def vias(lab, host, sports):
    """{source port: spine}, the leaf's own routing table asked."""
    peer = "h1" if host == "h2" else "h2"
    found = json.loads(lab("path", host, peer, "-j", "--sport", ",".join(map(str, set(sports)))))
    return {entry["sport"]: entry["via"] for entry in found}


def spines(lab, host):
    """{spine: queue pairs of @host that send over it}."""
    left = [row.get("steered_sport", row["sport"]) for row in rows(lab, host)]
    via, load = vias(lab, host, left), {}
    for port in left:
        load[via[port]] = load.get(via[port], 0) + 1
    return load


def busiest(lab, host="h1"):
    load = spines(lab, host)
    return max(sorted(load), key=load.get)


def lanes(lab, host):
    return lab.json(host, "paths")["paths"]


def covered(lab, host, qps=QPS):
    steers = lab.json(host, "steer")["steers"]
    return sum(entry["by"] == "auto" for entry in steers) >= qps


def is_ready(lab, count, qps=QPS):
    """All of the @count paths of both hosts are found, trusted, each queue pair is watched, and what
    it takes is probed each millisecond."""
    for host in LEAF:
        known = lanes(lab, host)
        groups = {lane.get("group") for lane in known} - {None}
        if len(groups) < count or any(lane["state"] != "up" or lane["diverted"] for lane in known) or \
                any(lane["qps"] and lane["use"] != "active" for lane in known) or \
                not covered(lab, host, qps):
            return False
    return True


def lose(lab, spine, hosts, lost):
    """The spine loses what goes to these hosts, silently, or does so no more."""
    for host in hosts:
        address = f"{lab.host(host)['address']}/32"
        lab.good(spine, "ip", "route", "add" if lost else "del", "blackhole", address)


@contextlib.contextmanager
def capturing(lab, folder, places, *words):
    """[pcap] of each (node, device, in | out | inout), whole when the block has ended; @words: what
    is caught, as pcap-filter(7) has it."""
    files, running = [], []
    for node, device, way in places:
        files.append(f"{folder}/{node}-{len(os.listdir(folder))}-{len(files)}.pcap")
        running.append(lab.start(node, "tcpdump", "-i", device, "-Q", way, "-U", "-B", "16384", "-s",
                                 "0", "-n", "-w", files[-1], "udp", "and", "dst", "port", "4791",
                                 *words))
    for process in running:
        while "listening on" not in process.stderr.readline():
            if process.poll() is not None:
                raise RuntimeError("tcpdump ended at once")
    try:
        yield files
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
            said = process.communicate()[1]
            lost = re.search(r"(\d+) packets? dropped by kernel", said)
            if lost and int(lost[1]):
                raise RuntimeError(f"tcpdump lost {lost[1]} packets")
