# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of several hosts, their queue pairs' owners in the daemons' map, and which queue pair stopped first by the packets
themselves.

Of each job a rank on each host, in a cgroup as Slurm's, sends to the next host. What owns each queue pair is written
into the map `qp_owners`, with the processes' numbers: the kernels that have labs have no RDMA devices to trace
(tests/vm/checks/owners.py traces real ones). The daemons read the jobs from the cgroups of these processes.
"""
import collections
import contextlib
import ipaddress
import json
import os
import signal
import struct
import tempfile
import time

import labtest
import rocev2
from tcplab import cgroup_root, remove_cgroup

HOSTS = ("h1", "h2", "h3", "h4")
JOBS = (1, 2, 3, 4)
QPS = 16  # of a job
QUIET = "2s"
PATIENCE_S = 30
OWNERS = "/sys/fs/bpf/escapement/qp_owners"
OWNER = "<16s16sQQQIIIHBBBBBBHBB16s32s"  # struct esc_owner
REMOTE_QPN, PATH, RTS, RC, ROCE_V2 = 1, 2, 3, 2, 3
# Slow, without end, and with few requests ahead of their acknowledgements: a queue pair whose packets are lost stops.
FLOW = ("--size", "1024", "--depth", "4", "--timeout", "500", "--give-up", "60", "--json")
QP_BPS = 150000
INTO_CGROUP = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


def mapped(address):
    return ipaddress.ip_address("::ffff:" + address).packed


def hexadecimal(data):
    return " ".join(f"{byte:02x}" for byte in data)


class Rank:
    """A process of a job that sends, with the one that receives, each in the cgroup of its step."""

    def __init__(self, lab, top, number, job, at, qps, limit):
        self.lab, self.job, self.qps, self.at, self.to = lab, job, qps, HOSTS[at], HOSTS[(at + 1) % len(HOSTS)]
        self.address, self.target = (lab.host(name)["address"] for name in (self.at, self.to))
        self.first = {"send": 0x1000 + 64 * number, "serve": 0x8000 + 64 * number}
        self.endless, self.begun_ns = "--seconds" in limit, time.monotonic_ns()
        port = ("--control-port", str(18515 + number))
        self.server = self.start(top, self.to, "step_1", labtest.ROCEFLOW, "serve", "--listen", self.target,
                                 "--interface", "eth1", "--idle", "120", "--json", "--qpn",
                                 str(self.first["serve"]), *port)
        self.client = self.start(top, self.at, "step_0", *labtest.sender(number), "--to", self.target, "--qps",
                                 str(qps), "--rate", str(qps * QP_BPS), "--qpn", str(self.first["send"]), *port, *FLOW,
                                 *limit)

    def start(self, top, host, step, *command):
        cgroup = f"{top}/job_{self.job}/{step}"
        os.makedirs(cgroup, exist_ok=True)
        return self.lab.start(host, "sh", "-c", INTO_CGROUP, cgroup, *command)

    def owners(self):
        """(host, key, value) of each of its entries in `qp_owners`."""
        ends = ((self.at, self.client, "send", "serve", self.address, self.target),
                (self.to, self.server, "serve", "send", self.target, self.address))
        for host, process, ours, theirs, local, remote in ends:
            for index in range(self.qps):
                yield host, struct.pack("<II", 1, self.first[ours] + index), struct.pack(
                    OWNER, mapped(remote), mapped(local), 0, self.begun_ns, self.begun_ns, self.first[theirs] + index,
                    process.pid, 0, 0, 1, RTS, RC, ROCE_V2, 0, 0, REMOTE_QPN | PATH, 0, 0, b"roceflow", b"lab0")

    def signal(self, what):
        self.client.send_signal(what)

    def end(self):
        """Waits for both processes. Its counts: {"packets", "bytes", "retransmits"} by direction."""
        ends = [(process, *process.communicate(timeout=60)) for process in (self.client, self.server)]
        if any(process.returncode for process, _, _ in ends):
            raise RuntimeError(f"roceflow of job {self.job} at {self.at}: "
                               f"{[(process.returncode, error) for process, _, error in ends]}")
        sent, served = (json.loads(text) for _, text, _ in ends)
        acks = sum(qp["responses"] + qp["cnps"] for qp in served["qps"])
        return collections.Counter({
            "tx.packets": sent["packets"] + acks,
            "rx.packets": served["packets"] + sum(qp["responses"] + qp["cnps"] for qp in sent["qps"]),
            "rx.bytes": served["bytes"] + sum(qp["response_bytes"] for qp in sent["qps"]),
            "tx.retransmits": sent["retransmitted"]})

    def kill(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                process.kill()
                process.communicate()


class World:
    def __init__(self, lab, top, folder):
        self.lab, self.top, self.folder = lab, top, folder
        self.ranks, self.number = [], 0
        self.counted = {job: collections.Counter() for job in JOBS}  # by roceflow
        self.entries = 0  # of a job, that ended

    def begin(self, sizes, *limit):
        """Of each job a rank with sizes[n] queue pairs on each host; that of job N with sizes[0] is on hN."""
        for job in JOBS:
            for index, qps in enumerate(sizes):
                at = (job - 1 + index) % len(HOSTS)
                self.ranks.append(Rank(self.lab, self.top, self.number, job, at, qps, limit))
                self.number += 1
        self.owners("update")

    def owners(self, what):
        """As the tracing programs do when queue pairs are connected ("update") and destroyed ("delete")."""
        lines = collections.defaultdict(list)
        for rank in self.ranks:
            for host, key, value in rank.owners():
                lines[host].append(f"map {what} pinned {OWNERS} key hex {hexadecimal(key)}" +
                                   (f" value hex {hexadecimal(value)}" if what == "update" else ""))
        for host, batch in lines.items():
            path = os.path.join(self.folder, "owners")
            with open(path, "w", encoding="ascii") as out:
                out.write("\n".join(batch) + "\n")
            self.lab.good(host, "bpftool", "batch", "file", path)

    def of(self, job):
        """Its ranks: first the one with sizes[0]."""
        return [rank for rank in self.ranks if rank.job == job]

    def sums(self):
        """What the daemons of all hosts state of each job."""
        found = {job: collections.Counter() for job in JOBS}
        none = 0
        for host in HOSTS:
            reply = self.lab.json(host, "job")
            none += reply["none"]["tx"]["packets"] + reply["none"]["rx"]["packets"]
            for one in reply["jobs"]:
                found[int(one["job_id"].removeprefix("job_"))].update({
                    "tx.packets": one["tx"]["packets"], "rx.packets": one["rx"]["packets"],
                    "rx.bytes": one["rx"]["bytes"], "tx.retransmits": one["tx"]["retransmits"],
                    "qps": one["qp_count"], "ended": one["qps_ended"]})
        return found, none

    def timeline(self, job):
        files = []
        for host in HOSTS:
            files += ["--from", os.path.join(self.folder, f"{host}.json")]
            with open(files[-1], "w", encoding="utf-8") as out:
                out.write(self.lab.good(host, "escapement", "-j", "job", str(job)))
        return self.lab.json("h1", "job", str(job), "timeline", "--quiet", QUIET, *files)

    def end(self):
        """All ranks end and their queue pairs are destroyed."""
        for rank in self.ranks:
            rank.signal(signal.SIGCONT)
            if rank.endless:
                rank.signal(signal.SIGTERM)
        for rank in self.ranks:
            self.counted[rank.job].update(rank.end())
        self.owners("delete")
        self.entries += 2 * 2 * sum(rank.qps for rank in self.of(JOBS[0]))
        self.ranks = []


def keys_of(line, ranks):
    """The stopped queue pairs of these ranks."""
    pids = {(rank.at, rank.client.pid) for rank in ranks}
    return {one["key"] for one in line["stopped"] if (one["host"], one.get("pid")) in pids}


class Capture:
    """All that the hosts sent, with one clock: the truth about which queue pair stopped first."""

    def __init__(self, world):
        self.files, self.running = {}, []
        for host in HOSTS:
            self.files[host] = os.path.join(world.folder, f"{host}-{world.number}.pcap")
            world.number += 1
            self.running.append(world.lab.start(host, "tcpdump", "-i", "eth1", "-Q", "out", "-U", "-B", "16384",
                                                "-s", "0", "-n", "-w", self.files[host], "udp dst port 4791"))
        for process in self.running:
            while "listening on" not in process.stderr.readline():
                if process.poll() is not None:
                    raise RuntimeError("tcpdump ended at once")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate()

    def stopped(self, ranks):
        """[(when its last new request was sent, key)] of the queue pairs of these ranks, the first one first."""
        last = {}
        for rank in ranks:
            numbers = range(rank.first["serve"], rank.first["serve"] + rank.qps)
            source = ipaddress.ip_address(rank.address).packed
            for packet in rocev2.progress(rocev2.packets(self.files[rank.at]), source):
                if packet.qpn in numbers:
                    last[f"{rank.address}>{rank.target}/{packet.qpn}"] = packet.time
        return sorted((when, key) for key, when in last.items())


def candidates(line):
    return {line["first"]["key"]} if "first" in line else set(line.get("not_ordered_with", ()))


@contextlib.contextmanager
def world(lab, name):
    """A World without ranks, whose processes and cgroups are removed however the block ends."""
    top = f"{cgroup_root()}/escapement-{name}-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        one = World(lab, top, folder)
        try:
            yield one
        finally:
            for rank in one.ranks:
                rank.kill()
            for path, _, _ in os.walk(top, topdown=False):
                labtest.wait_for(lambda path=path: remove_cgroup(path), 3)
