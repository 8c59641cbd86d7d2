#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A ring all-reduce, an all-to-all, an incast and two jobs of RoCE flows over the lab's ECMP: the duration of their
rounds with neither pacing nor steering, with one of them, with both. Pacing needs a kernel with fq: without it, this
runs in an emulated machine (tests/vm, check pace_collectives).

tests/lib/collectives.py [--seed N] [--seeds N] [--rounds N] [--patterns ring,to_all,incast,jobs] [--laws none,...]
prints one JSON object a line: the setup, the figures of each run, then a row of the table for each pattern: medians
over the seeds, and how long a round takes with both, relative to the better one. Each seed has all laws, one after
another, and begins with another one.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import board
import clocklab
import contendlab
import labtest

HOSTS, LEAVES, SPINES = 4, 2, 2
# So slow that one emulated CPU is not the bottleneck: with 20 Mbit/s it is.
LINK_MBIT = 5
PAYLOAD = 4096
PACKET_NS = (PAYLOAD + 60) * 8e3 / LINK_MBIT  # on a link
# In serialization times of a packet T is 10, in tests/sim/pause_bench 15; messages and the queue are shorter as well,
# since at most two flows share a spine here.
THRESHOLD_MS = 66
QUEUE_BYTES = 16 * (PAYLOAD + 60)
MESSAGE = 32 * PAYLOAD
WINDOW = 64          # packets that soft-RoCE passes on at once
TIMEOUT_MS = 1073    # an InfiniBand timeout of 18
REST_NS = 100_000_000
JOB_LATER_S = 0.3
PATHS_S = 60
LEAD_ROUNDS = 2      # for moves and for the convergence of rates
LAWS = ("none", "pacing", "steering", "both")
CONFIG = f"""mesh: {{ pair_interval: 200ms }}
paths: {{ probe_interval: 60ms, standby_interval: 60ms, dead_after: 1s, return_after: 1s }}
qps: {{ idle: 300s }}
steer: {{ mode: off, capacity: {LINK_MBIT}Mbit }}
pace: {{ threshold: {THRESHOLD_MS}ms, line: {LINK_MBIT}Mbit, hold_max: 500ms }}
"""


BEGUN = time.monotonic()


def note(text):
    print(f"# {time.monotonic() - BEGUN:.0f} s: {text}", file=sys.stderr, flush=True)


class Flow(contendlab.Stream):
    """One queue pair; its rank in its job is the last byte of its own QPN: by that the board knows it."""

    def __init__(self, number, ends, part, job, rank):
        super().__init__(*ends, 1, part * contendlab.RATE_MBIT * 1e6)
        self.number, self.job, self.rank = number, job, rank

    def draw(self, draw):
        local = draw.randrange(1, 255) << 8 | self.rank
        remote = draw.randrange(0x100, 0xff00)
        return local, remote, [contendlab.rxe_port(local, remote)]


class Network(labtest.Lab):
    """Half of the hosts on either leaf; all links are as fast, those to hosts included."""

    learn = contendlab.Fabric.learn

    def __init__(self, paced):
        self.paced = paced
        super().__init__("co", "--hosts", str(HOSTS), "--leaves", str(LEAVES), "--spines",
                         str(SPINES), "--rate", f"{LINK_MBIT}mbit", "--queue", str(QUEUE_BYTES),
                         "--mtu", "4200", *labtest.ALL_ICMP)
        self.hosts = [f"h{i + 1}" for i in range(HOSTS)]
        self.near = self.hosts[:HOSTS // 2]
        self.via = collections.defaultdict(dict)

    def __enter__(self):
        super().__enter__()
        try:
            self.limit_ports()
            clocklab.append_config(self, CONFIG)
            if not self.paced:
                self("start")
            for host in self.hosts if self.paced else ():  # one by one: an emulated CPU is slow
                self("start", host)
                self.good(host, "escapement", "pace", "setup-fq", "eth1")
                note(f"{host} has started")
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def limit_ports(self):
        self.addresses = {}
        for host in self.status()["hosts"]:
            self.addresses[host["name"]] = host["address"]
            self.good(host["leaf"], "tc", "qdisc", "add", "dev", host["leaf_interface"], "root",
                      "tbf", "rate", f"{LINK_MBIT}mbit", "burst", "8436", "limit",
                      str(QUEUE_BYTES))

    def far_apart(self, flow):
        return (flow.source in self.near) != (flow.target in self.near)

    def set_law(self, law):
        for host in self.hosts:
            self.good(host, "escapement", "mode", "observe")
            if law in ("pacing", "both"):
                self.good(host, "escapement", "pace", "on")
            if law in ("steering", "both"):
                self.good(host, "escapement", "steer", "auto", "on")
        if law in ("pacing", "both"):
            for host in self.hosts:
                if not labtest.wait_for(lambda: self.json(host, "pace")["clock"]["usable"], 30, 0.5):
                    raise RuntimeError(f"{host}: no clock to pace by: {self.json(host, 'pace')}")

    def lacking(self, flows):
        """Flows without complete paths."""
        known = {host: {pair["to"] for pair in self.json(host, "paths")["pairs"]
                        if pair.get("complete") and pair.get("groups") == SPINES}
                 for host in {flow.source for flow in flows}}
        return [flow for flow in flows if self.far_apart(flow) and
                self.addresses[flow.target] not in known[flow.source]]

    def drops(self):
        """Packets that the fabric's queues dropped so far."""
        total = 0
        for node in [f"leaf{i + 1}" for i in range(LEAVES)] + [f"spine{i + 1}" for i in range(SPINES)]:
            total += sum(qdisc.get("drops", 0) for qdisc in
                         json.loads(self.good(node, "tc", "-s", "-j", "qdisc", "show"))
                         if qdisc["kind"] == "tbf")
        return total

    def moves(self, since_ns):
        return [event for host in self.hosts
                for event in self.events(host, "path_switched", since_ns=since_ns)]


def flows_of(pattern, hosts):
    """Neighbours of a ring are on different leaves; two jobs are a ring of two each."""
    if pattern == "ring":
        order = [host for pair in zip(hosts[:HOSTS // 2], hosts[HOSTS // 2:]) for host in pair]
        ends = [(host, order[(i + 1) % HOSTS]) for i, host in enumerate(order)]
    elif pattern == "jobs":
        ends = [end for pair in zip(hosts[:HOSTS // 2], hosts[HOSTS // 2:]) for end in (pair, pair[::-1])]
    elif pattern == "to_all":
        ends = [(one, other) for one in hosts for other in hosts if one != other]
    else:
        ends = [(host, hosts[0]) for host in hosts[1:]]
    part = 1 / (HOSTS - 1) if pattern == "to_all" else 1
    of_one = 2 if pattern == "jobs" else len(ends)
    return [Flow(number, pair, part, number // of_one, number % of_one) for number, pair in enumerate(ends)]


def steps_of(pattern):
    return 2 * (HOSTS - 1) if pattern in ("ring", "jobs") else 1


class Run:
    """Some rounds of a collective under one law."""

    def __init__(self, lab, flows, pattern, rounds):
        self.lab, self.flows, self.rounds = lab, flows, rounds
        self.steps = steps_of(pattern)
        self.began_ns = time.time_ns()
        drops, ticks = lab.drops(), labtest.cpu_ticks()
        with tempfile.TemporaryDirectory(prefix="escapement-board-", dir="/run") as folder:
            self.boards = [board.Board(os.path.join(folder, f"b{job}"), sum(flow.job == job for flow in flows),
                                       self.steps, REST_NS) for job in sorted({flow.job for flow in flows})]
            self.go()
            jobs = [[(end - start) / 1e6 for start, end in one.rounds(rounds)] for one in self.boards]
        self.took_ms = [took for job in jobs for took in job]
        self.counted_ms = sorted(took for job in jobs for took in job[LEAD_ROUNDS:])
        self.drops = lab.drops() - drops
        idle, every = labtest.cpu_ticks(ticks)
        self.idle = idle / max(every, 1)

    def go(self):
        serving = [self.lab.start(flow.target, *self.server_words(flow)) for flow in self.flows]
        time.sleep(0.5)
        sending = [self.lab.start(flow.source, *self.sender_words(flow)) for flow in self.flows]
        labtest.wait_for(lambda: all(os.path.exists(f"{self.boards[flow.job].path}.{flow.rank}")
                                     for flow in self.flows), 30, 0.2)
        time.sleep(1 + 0.1 * len(self.flows))
        for job, one in enumerate(self.boards):
            one.start(0.2 + JOB_LATER_S * job)
        self.sent = [finish(process) for process in sending]
        self.served = [finish(process) for process in serving]

    def server_words(self, flow):
        return [labtest.ROCEFLOW, "serve", "--listen", self.lab.addresses[flow.target], "--interface",
                "eth1", "--qpn", str(flow.remote), "--control-port", str(18515 + flow.number),
                "--board", self.boards[flow.job].path, "--json"]

    def sender_words(self, flow):
        return [labtest.ROCEFLOW, "send", "--to", self.lab.addresses[flow.target], "--interface",
                "eth1", "--control-port", str(18515 + flow.number), "--qps", "1", "--qpn",
                str(flow.local), "--flow", str(flow.rank), "--line",
                str(self.lab.hosts.index(flow.source)), "--rate", f"{LINK_MBIT}m", "--catch-up", "5",
                "--window", str(WINDOW), "--size", str(MESSAGE), "--mtu", str(PAYLOAD), "--op",
                "write", "--messages", str(self.steps * self.rounds), "--timeout",
                str(TIMEOUT_MS), "--give-up", "60", "--board", self.boards[flow.job].path, "--json"]

    def figures(self):
        counted = self.counted_ms
        packets = sum(sent["packets"] for sent in self.sent)
        again = sum(sent["retransmitted"] for sent in self.sent)
        return {"median_ms": round(counted[len(counted) // 2], 1), "least_ms": round(counted[0], 1),
                "most_ms": round(counted[-1], 1), "rounds": len(counted),
                "took_ms": [round(took, 1) for took in self.took_ms],
                "packets": packets, "retransmitted": again, "dropped": self.drops,
                "timeouts": sum(qp["timeouts"] for sent in self.sent for qp in sent["qps"]),
                "socket_drops": sum(end["socket_drops"] for end in self.sent + self.served),
                "damaged": sum(end["icrc_errors"] for end in self.sent + self.served) +
                sum(served["invalid"] for served in self.served),
                "moves": len(self.lab.moves(self.began_ns)), "idle": round(self.idle, 2)}


def finish(process):
    out, error = process.communicate(timeout=150)
    if process.returncode:
        raise RuntimeError(f"roceflow: {error}")
    return json.loads(out)


def ideal_ms(lab, flows, pattern):
    """Duration of a round by the most loaded link: as ECMP has placed the flows, and with the best placement."""
    users = contendlab.demand_bps(lab, [flow for flow in flows if lab.far_apart(flow)],
                                 [flow.own for flow in flows if lab.far_apart(flow)])
    unit = flows[0].rate_bps
    at_port = max(collections.Counter(flow.target for flow in flows).values())
    one = steps_of(pattern) * MESSAGE / PAYLOAD * PACKET_NS / 1e6
    crowd = max(round(bps / unit) for bps in users.values())
    return round(one * max(crowd, at_port), 1), round(one * at_port, 1)


def output(**keys):
    print(json.dumps(keys), flush=True)


def collective(lab, pattern, rounds, laws, draw):
    """Some rounds with each law: (law, run, duration of a round by ECMP and with the best placement, ms)."""
    flows = flows_of(pattern, lab.hosts)
    crossing = [flow for flow in flows if lab.far_apart(flow)]
    for flow in flows:
        flow.take(flow.draw(draw))
    if pattern != "incast":  # which contends for its target's port: no path is better
        contendlab.place(lab, crossing, draw, True)
    placed, well = ideal_ms(lab, flows, pattern)
    note(f"{pattern}: ports are drawn")
    lab.set_law("none")
    begun = time.monotonic()
    while True:  # paths are probed when the daemon has their queue pairs
        first = Run(lab, flows, pattern, 1)
        note(f"{pattern}: a round of {first.took_ms[0]:.0f} ms, the CPU idle for {first.idle:.0%}")
        if labtest.wait_for(lambda: not lab.lacking(crossing), 12, 1):
            break
        lacking = [(flow.source, flow.target) for flow in lab.lacking(crossing)]
        note(f"{pattern}: no paths for {lacking}")
        if time.monotonic() - begun > PATHS_S:
            raise RuntimeError(f"paths: {lacking}: {lab.json(lacking[0][0], 'paths')}")
    for law in laws:
        lab.set_law(law)
        note(f"{pattern}: {law}")
        run = Run(lab, flows, pattern, LEAD_ROUNDS + rounds)
        yield law, run, placed, well


def row_of(pattern, runs):
    """A row of the table; @runs: the figures of each run by law."""
    row = {"table": pattern, "seeds": min(len(of_law) for of_law in runs.values())}
    for key in ("median_ms", "moves"):
        row[key] = {law: contendlab.median([run[key] for run in of_law]) for law, of_law in runs.items()}
    took = row["median_ms"]
    if {"pacing", "steering", "both"} <= set(took):
        row["both_part"] = round(took["both"] / min(took["pacing"], took["steering"]), 3)
    return row


def seed_of(lab, options, number, found):
    """All patterns with all laws, drawn by one seed."""
    draw = random.Random(options.seed + number)
    laws = options.laws.split(",")
    first = number % len(laws)
    for pattern in options.patterns.split(","):
        for law, run, needs, well in collective(lab, pattern, options.rounds, laws[first:] + laws[:first], draw):
            found[pattern][law].append(run.figures())
            output(pattern=pattern, law=law, seed=options.seed + number, needs_ms=needs, needs_placed_ms=well,
                   **found[pattern][law][-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--patterns", default="ring,to_all,incast,jobs")
    parser.add_argument("--laws", default=",".join(LAWS))
    options = parser.parse_args()
    begun = time.monotonic()
    with Network({"pacing", "both"} & set(options.laws.split(","))) as lab:
        ticks = labtest.cpu_ticks()
        time.sleep(3)
        idle, every = labtest.cpu_ticks(ticks)
        note(f"all are up; the CPU idle for {idle / every:.0%}")
        output(seed=options.seed, up_s=round(time.monotonic() - begun, 1),
             kernel=subprocess.check_output(["uname", "-r"], text=True).strip())
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for number in range(options.seeds):
            seed_of(lab, options, number, found)
        for pattern, runs in found.items():
            output(**row_of(pattern, runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
