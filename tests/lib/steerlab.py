# SPDX-License-Identifier: BSD-2-Clause
"""What the lab's tests of steering share: continuous traffic from h1 to h2, the spine that it takes, spines
that drop packets silently, captures."""
import contextlib
import json
import os
import re
import signal

import labtest

QPS = 4
LEAF = {"h1": 1, "h2": 2}


def flowing(lab, rate="8m", silence_ms=4, qps=QPS):
    """h1 -> h2 until it is stopped."""
    return labtest.Flow(lab, "--interface", "eth1", "--qps", str(qps), "--qp-rate", rate, "--seconds", "3600",
                        "--op", "write", "--give-up", "60", server_options=("--silence", str(silence_ms)))


def rows(lab, host):
    return [row for row in lab.json(host, "qp")["qps"]
            if row["direction"] == "tx" and row.get("rate_bps", 1)]


def vias(lab, host, sports):
    """{source port: spine}, by the leaf's routing table."""
    peer = "h1" if host == "h2" else "h2"
    found = json.loads(lab("path", host, peer, "-j", "--sport", ",".join(map(str, set(sports)))))
    return {entry["sport"]: entry["via"] for entry in found}


def spines(lab, host):
    """{spine: queue pairs of @host that send over it}."""
    used = [row.get("steered_sport", row["sport"]) for row in rows(lab, host)]
    via, load = vias(lab, host, used), {}
    for port in used:
        load[via[port]] = load.get(via[port], 0) + 1
    return load


def busiest(lab, host="h1"):
    load = spines(lab, host)
    return max(sorted(load), key=load.get)


def candidates(lab, host):
    return lab.json(host, "paths")["paths"]


def protected(lab, host, qps=QPS):
    """Each queue pair that sends has a rule in force, made for the source port that it sends with (an earlier one
    may have had its number). While a rule waits, packets still take a path that it does not name, and no probe
    supervises that path for them."""
    def subject(entry):
        return entry["src"], entry["dst"], entry["dest_qpn"], entry["sport"]

    in_force = {subject(entry) for entry in lab.json(host, "steer")["steers"]
                if entry["by"] == "automatic" and entry["state"] != "waiting"}
    sending = {subject(row) for row in rows(lab, host)}
    return len(sending) >= qps and sending <= in_force


def is_ready(lab, count, qps=QPS):
    """All of the @count paths of both hosts are known and up, each queue pair is protected, and the paths in use
    are probed at the active rate."""
    for host in LEAF:
        known = candidates(lab, host)
        groups = {path.get("group") for path in known} - {None}
        if len(groups) < count or any(path["state"] != "up" or path["diverted"] for path in known) or \
                any(path["qps"] and path["use"] != "active" for path in known) or \
                not protected(lab, host, qps):
            return False
    return True


def lose(lab, spine, hosts, lost):
    """The spine drops the packets to these hosts silently, or forwards them again."""
    for host in hosts:
        address = f"{lab.host(host)['address']}/32"
        lab.good(spine, "ip", "route", "add" if lost else "del", "blackhole", address)


GONE_S = 3  # ESC_PROBE_HEARTBEAT_TIMEOUT_NS: with an older heartbeat the programs send no replies
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
    """with Heartbeat(lab, "h1") as beat: the heartbeat is written in place of the daemon, so that the duration of
    a restart on a busy machine does not matter. With @writes false it is only read. Afterwards beat.apart_ns is
    the longest pause, beat.gone_ns the time for which it was older than GONE_S."""

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
    """[pcap] of each (node, device, in | out | inout), complete when the block has ended; @words: a filter of
    pcap-filter(7)."""
    files, running = [], []
    for node, device, direction in places:
        files.append(f"{folder}/{node}-{len(os.listdir(folder))}-{len(files)}.pcap")
        running.append(lab.start(node, "tcpdump", "-i", device, "-Q", direction, "-U", "-B", "16384", "-s",
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
            lost = re.search(r"(\d+) packets? dropped by kernel", process.communicate()[1])
            if lost and int(lost[1]):
                raise RuntimeError(f"tcpdump lost {lost[1]} packets")
