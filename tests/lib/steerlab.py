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
    """Each queue pair has a rule in force: while one waits, packets still take a path that it does not
    name, and nothing watches that path for them."""
    steers = lab.json(host, "steer")["steers"]
    return sum(entry["by"] == "automatic" and entry["state"] != "waiting" for entry in steers) >= qps


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


GONE_S = 3  # ESC_PROBE_HEARTBEAT_TIMEOUT_NS: with an older heartbeat probes are not answered
BEAT = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
path = ctypes.create_string_buffer(b"/sys/fs/bpf/escapement/control")
attr = (ctypes.c_uint64 * 2)(ctypes.addressof(path), 0)
fd = libc.syscall({"x86_64": 321, "aarch64": 280}[os.uname().machine], 7, attr, ctypes.sizeof(attr))
page = libc.mmap(None, 4096, 3, 1, fd, 0)  # read and write, shared
if fd < 0 or page == ctypes.c_void_p(-1).value:
    sys.exit("control: " + os.strerror(ctypes.get_errno()))
beat = ctypes.c_uint64.from_address(page + 8)  # heartbeat_local_ns of struct esc_control
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(apart, late)))
writes, gone_ns = sys.argv[1] == "write", int(sys.argv[2])
apart, late, newest, counted = 0, 0, beat.value, 0
print("ready", flush=True)
while True:
    seen, now = beat.value, time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if seen != newest:
        newest, counted = seen, 0
    apart = max(apart, now - seen)
    late += max(0, now - seen - gone_ns - counted)
    counted = max(0, now - seen - gone_ns)
    if writes:
        beat.value = now
    time.sleep(0.05 if writes else 0.002)
"""


class Heartbeat:
    """with Heartbeat(lab, "h1") as beat: the daemon's heartbeat goes on without it, so that how long a
    restart takes on a busy machine decides nothing. With @writes false it is read only. Then beat.apart_ns:
    the longest pause there was; beat.gone_ns: for how long it was older than GONE_S."""

    def __init__(self, lab, host, writes=True):
        self.process = lab.start(host, "/usr/bin/python3", "-c", BEAT, "write" if writes else "read",
                                 str(GONE_S * 10**9))
        self.apart_ns = self.gone_ns = None

    def __enter__(self):
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"no heartbeat: {self.process.communicate()[1]}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.apart_ns, self.gone_ns = map(int, self.process.communicate()[0].split())


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
