# SPDX-License-Identifier: BSD-2-Clause
"""For test_diagnoses: a workload of four queue pairs on four spines, a flow that collides with one of them, faults,
and their events."""
import dataclasses
import json
import time

import clocklab
import labtest

SPINE_MBIT = 12
QP_RATE = "8m"  # of four on four spines; a link drains less than its rate when its timer is late
# Packets in flight: two flows on a spine have a queue of some milliseconds.
WINDOW = "16"
FIRST_PORTS = 512
QPS = 4
RAW_ROCEV1 = r"""
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth1", 0))
mac = open("/sys/class/net/eth1/address").read().strip()
own = bytes.fromhex(mac.replace(":", ""))
for _ in range(int(sys.argv[1])):
    s.send(bytes.fromhex(sys.argv[2].replace(":", "")) + own + b"\x89\x15" + bytes(60))
"""


def wait_event(lab, kind, since_ns, seconds, good=lambda event: True, host="h1"):
    """The first such event; None without one."""
    def find():
        return next((e for e in lab.events(host, kind, since_ns=since_ns) if good(e)), None)
    return labtest.wait_for(find, seconds, 0.25)


@dataclasses.dataclass
class Plan:
    first_port: int  # of the four
    bad_port: int
    spine: str
    collider_port: int


def plan_collision(lab, chance):
    """Four successive ports on four spines, by the kernel's routing, and a port that shares a spine with one of them."""
    ours = clocklab.spines_of(lab, "h1", "h3", 50000, FIRST_PORTS)
    theirs = clocklab.spines_of(lab, "h2", "h4", 52000, 256)
    rows = [port for port in ours if port + QPS - 1 in ours
            and len({ours[port + i] for i in range(QPS)}) == QPS]
    first = chance.choice(rows)
    bad = first + chance.randrange(QPS)
    collider = chance.choice([port for port in theirs if theirs[port] == ours[bad]])
    return Plan(first, bad, ours[bad], collider)


class Flow(labtest.Flow):
    """roceflow from @client to @server until it is stopped. Its queue pair numbers are unique."""
    next_qpn = 0x100

    def __init__(self, lab, server, client, *options):
        self.qpns = range(Flow.next_qpn, Flow.next_qpn + 0x10)
        numbers = ("--qpn", str(Flow.next_qpn))
        Flow.next_qpn += 0x10
        super().__init__(lab, "--seconds", "600", "--window", WINDOW, *numbers, *options, client=client,
                         server=server, server_options=numbers)


class Workload(Flow):
    """Four queue pairs from h1 to h3, or between two others, on successive ports."""

    def __init__(self, lab, first_port, *options, client="h1", server="h3"):
        super().__init__(lab, server, client, "--qps", str(QPS), "--qp-rate", QP_RATE, "--sport-mode",
                         f"step:{first_port}", *options)

    def qps(self):
        return [qp for qp in self.lab.json(self.from_, "qp")["qps"]
                if qp["direction"] == "tx" and qp["dest_qpn"] in self.qpns]

    def rates(self, seconds=1):
        """{source port: Mbit/s} over the next @seconds."""
        before, since = {qp["sport"]: qp["bytes"] for qp in self.qps()}, time.monotonic()
        time.sleep(seconds)
        after, took = {qp["sport"]: qp["bytes"] for qp in self.qps()}, time.monotonic() - since
        return {port: (after[port] - before[port]) * 8e-6 / took for port in after
                if port in before}

    def settle(self):
        """Waits until all four have delays, and a floor over some seconds."""
        def measured():
            qps = self.qps()
            return len(qps) == QPS and all("owd_ns" in qp or "diagnoses" in qp or
                                           qp["packets"] > 2000 for qp in qps)
        if not labtest.wait_for(measured, 20):
            raise RuntimeError(f"the workload does not flow: {self.rates()}, {self.diagnosis()}")
        time.sleep(2)


class Collider(Flow):
    """One queue pair from h2 to h4 over the spine of the plan, at the highest rate."""

    def __init__(self, lab, plan):
        super().__init__(lab, "h4", "h2", "--qps", "1", "--sport-mode",
                         f"fixed:{plan.collider_port}")

    def onset_ns(self):
        """The time of its first packet at h2's programs, CLOCK_REALTIME."""
        def first():
            return next((qp["first_local_ns"] for qp in self.lab.json("h2", "qp")["qps"]
                         if qp["direction"] == "tx" and qp["dest_qpn"] in self.qpns), None)
        seen = labtest.wait_for(first, 10)
        if not seen:
            raise RuntimeError("the colliding flow does not flow")
        return time.time_ns() - time.monotonic_ns() + seen


class Outliers:
    """Outliers that are reported while a workload runs."""

    def __init__(self, lab, since_ns):
        self.lab, self.since_ns = lab, since_ns

    def others(self, port):
        return [event["seen"] for event in self.lab.events("h1", "qp_outlier", since_ns=self.since_ns)
                if event["seen"]["sport"] != port]


class SlowClass:
    """Packets of the workload from a host's leaf to it are in a slow class: those of four source ports, or, without
    @first_port, all of InfiniBand's own opcodes, as with a traffic class that probes do not have."""

    def __init__(self, lab, first_port, rate, host="h3"):
        self.lab, self.device, self.leaf = lab, host, lab.host(host)["leaf"]
        if first_port and first_port % 4:
            raise ValueError("the four ports have to fit one mask")
        match = f"ip sport {first_port} 0xfffc" if first_port else "u8 0 0x80 at 28"
        for line in (f"qdisc replace dev {self.device} root handle 1: htb default 16",
                     f"class add dev {self.device} parent 1: classid 1:16 htb rate 10gbit",
                     f"class add dev {self.device} parent 1: classid 1:32 htb rate {rate}",
                     f"filter add dev {self.device} parent 1: protocol ip u32 "
                     f"match ip protocol 17 0xff match {match} flowid 1:32"):
            lab.good(self.leaf, "tc", *line.split())
        self.begun_ns = time.time_ns()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.good(self.leaf, "tc", "qdisc", "replace", "dev", self.device, "root", "noqueue")


class NoReturn:
    """leaf2 drops all packets to h1: ACKs, receipts, probes."""

    def __init__(self, lab):
        self.lab, self.to = lab, lab.host("h1")["address"]
        lab.good("leaf2", "ip", "route", "add", "blackhole", f"{self.to}/32")
        self.begun_ns = time.time_ns()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.good("leaf2", "ip", "route", "del", "blackhole", f"{self.to}/32")


def send_rocev1(lab, host, frames):
    """Frames of ethertype 0x8915 from @host to its leaf."""
    leaf = lab.good(host, "ip", "-j", "neigh", "show", "dev", "eth1")
    mac = next(entry["lladdr"] for entry in json.loads(leaf) if "lladdr" in entry)
    lab.good(host, "/usr/bin/python3", "-c", RAW_ROCEV1, str(frames), mac)


def textfile(lab, host):
    with open(clocklab.path_of(lab, host, "textfile", "escapement.prom"), encoding="utf-8") as file:
        return file.read()


def sample(text, name):
    """The value of a series; None: it is not there."""
    for line in text.splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    return None
