# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs that share spines by chance: the same traffic from the same ports, left where ECMP
puts it, and steered. What the receivers saw is what counts."""
import json
import os
import time

import clocklab
import labtest

BIN_MS = 20
RATE_MBIT = 60      # of a link of the fabric
PART = 0.75         # of it that the queue pairs of one spine want, when all are placed well
WINDOW = 8          # packets of 4 KiB
BEFORE_NS, AFTER_NS = 50e6, 150e6  # around the event of a move
WARM_S, HOT_S = 2.0, 3.0
SETTLE_S = 0.5      # from the onset
MESSAGE = 65536
PAYLOAD_PART = 4096 / (4096 + 44)
CONFIG = ("paths: {{ probe_interval: 5ms, standby_interval: 10ms, dead_after: 1s, return_after: 1s }}\n"
          "mesh: {{ pair_interval: 10ms }}\n"
          "qps: {{ idle: 3s }}\n"
          "steer: {{ mode: off, capacity: {rate}Mbit }}\n")


class Fabric(labtest.Lab):
    """Senders on the first leaf, receivers on the second, spines that are slow; daemons in step."""

    def __init__(self, name, spines, pairs, *options):
        super().__init__(name, "--hosts", str(2 * pairs), "--leaves", "2", "--spines", str(spines),
                         "--rate", f"{RATE_MBIT}mbit", "--queue", "4000000", "--mtu", "4200",
                         *options)
        self.spines, self.pairs = spines, pairs
        self.senders = [f"h{i + 1}" for i in range(pairs)]
        self.receivers = [f"h{pairs + i + 1}" for i in range(pairs)]

    def __enter__(self):
        super().__enter__()
        try:
            clocklab.append_config(self, CONFIG.format(rate=RATE_MBIT))
            self("start")
            self.in_step()
        except BaseException:
            self.__exit__()
            raise
        return self

    def in_step(self):
        for host in self.senders:
            self.good(host, "escapement", "clock", "wait", "--bound", "10us", "--timeout", "40s",
                      timeout=60)

    def spines_of(self, pair, sports):
        """The spine of each source port, as the leaf's own routing table says."""
        found = json.loads(self("path", self.senders[pair], self.receivers[pair], "-j", "--sport",
                                ",".join(map(str, sports))))
        via = {entry["sport"]: entry["via"] for entry in found}
        return [via[sport] for sport in sports]

    def steer(self, on):
        for host in self.senders:
            if on:
                self.good(host, "escapement", "steer", "auto", "on")
            else:
                self.good(host, "escapement", "mode", "observe")

    def events(self, since_ns, *kinds):
        found = []
        for host in self.senders:
            for line in self.good(host, "escapement", "-j", "events").splitlines():
                event = json.loads(line)
                if event["kind"] in kinds and event["time_ns"] >= since_ns:
                    found.append({"host": host, **event})
        return sorted(found, key=lambda event: event["time_ns"])


def rxe_port(local_qpn, remote_qpn):
    """As soft-RoCE derives it, and roceflow."""
    mixed = local_qpn * remote_qpn
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    return ((mixed & 0x3fff) ^ (mixed & 0xfc000) >> 14) | 0xc000


class Ports:
    """Queue pairs' numbers, drawn; their source ports follow, and ECMP decides by these."""

    def __init__(self, lab, qps, draw):
        self.qps, self.each = qps, qps // lab.pairs
        self.local = [draw.randrange(0x100, 0xff00) for _ in range(lab.pairs)]
        self.remote = [draw.randrange(0x100, 0xff00) for _ in range(lab.pairs)]
        self.own = [[rxe_port(self.local[pair] + i, self.remote[pair] + i)
                     for i in range(self.each)] for pair in range(lab.pairs)]
        self.load = spread(lab, self.own)


def spread(lab, ports):
    """{spine: queue pairs} of source ports, a list for each pair of hosts."""
    load = dict.fromkeys((f"spine{i + 1}" for i in range(lab.spines)), 0)
    for pair, own in enumerate(ports):
        for spine in lab.spines_of(pair, own):
            load[spine] += 1
    return load


def overloaded(lab, load):
    """Spines that are asked for more than a link carries."""
    qps = sum(load.values())
    return [spine for spine, count in load.items()
            if count * rate_of_qp(lab, qps) > RATE_MBIT * 1e6]


def draw_ports(lab, qps, draw, crowded):
    """Ports that ECMP puts together, or ports that it does not."""
    while True:
        ports = Ports(lab, qps, draw)
        if bool(overloaded(lab, ports.load)) == crowded:
            return ports


def rate_of_qp(lab, qps):
    """So that a placement exists where no link is asked for more than PART of it."""
    most = -(-qps // lab.spines)
    return PART * RATE_MBIT * 1e6 / most


def sender_words(lab, pair, ports, part):
    rate = int(part * rate_of_qp(lab, ports.qps))
    # What a busy machine kept it from sending is sent later, unless the links are to stay calm.
    catch_up = "20" if part == 1 else "1"
    # A sender that changes CPUs changes queues of the veth, and its packets overtake each other there.
    return ["taskset", "-c", str(pair % os.cpu_count()), labtest.ROCEFLOW, "send", "--to", lab.host(lab.receivers[pair])["address"],
            "--interface", "eth1", "--qps", str(ports.each), "--qpn",
            str(ports.local[pair]), "--qp-rate", str(rate), "--window", str(WINDOW),
            "--size", str(MESSAGE), "--mtu", "4096", "--depth", "1", "--catch-up", catch_up, "--warm", str(WARM_S),
            "--seconds", str(WARM_S + HOT_S), "--timeout", "3000", "--give-up", "60", "--op", "write",
            "--json"]


class Run:
    """One stretch of traffic: a quiet start, the onset, what came of it."""

    def __init__(self, lab, ports, part=1):
        self.lab, self.ports = lab, ports
        self.began_ns = time.time_ns()
        serving = [lab.start(host, labtest.ROCEFLOW, "serve", "--listen", lab.host(host)["address"],
                             "--interface", "eth1", "--qpn", str(ports.remote[i]), "--bin",
                             str(BIN_MS), "--json")
                   for i, host in enumerate(lab.receivers)]
        time.sleep(0.3)
        sending = [lab.start(lab.senders[i], *sender_words(lab, i, ports, part))
                   for i in range(lab.pairs)]
        self.sent = [finish(process) for process in sending]
        self.served = [finish(process) for process in serving]
        self.onset_ns = max(sent["onset_ns"] for sent in self.sent)
        self.wanted = part * rate_of_qp(lab, ports.qps) * ports.qps / 8 * PAYLOAD_PART
        self.moves = self.events("path_switched")
        self.load = spread(lab, self.ports_at_the_end())

    def events(self, *kinds):
        """Those of this run; at_s is from the onset."""
        ahead_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.time_ns()
        found = self.lab.events(self.began_ns, *kinds)
        for event in found:
            event["at_s"] = (event["time_ns"] + ahead_ns - self.onset_ns) / 1e9
        return found

    def ports_at_the_end(self):
        """The source ports that queue pairs left with, a list for each pair of hosts."""
        left = [list(own) for own in self.ports.own]
        for event in self.events("path_switched", "path_rolled_back"):
            pair = self.lab.senders.index(event["host"])
            qp = int(event["subject"].rsplit(" ", 1)[1], 16) - self.ports.remote[pair]
            left[pair][qp] = event["done"]["to"]["sport"]
        return left

    def share(self, after_s, until_s):
        """Of what the queue pairs want."""
        return self.delivered(after_s, until_s) / self.wanted

    def delivered(self, after_s, until_s):
        """Bytes of payload a second, from the onset on."""
        total = 0
        for served in self.served:
            for n, count in enumerate(served["bins"]):
                at = (served["bins_start_ns"] + n * served["bin_ns"] - self.onset_ns) / 1e9
                if after_s <= at < until_s:
                    total += count
        return total / (until_s - after_s)

    def socket_drops(self):
        return sum(end["socket_drops"] for end in self.sent + self.served)

    def settled_s(self, wanted, window_s=0.1):
        """From when on every 100 ms carry @wanted bytes a second; None: never."""
        settled, at = None, 0.0
        while at + window_s <= HOT_S - 0.2:
            if self.delivered(at, at + window_s) < wanted:
                settled = None
            elif settled is None:
                settled = at
            at += BIN_MS / 1e3
        return settled

    def gaps(self):
        """Packets that came before their turn, at the receivers."""
        return sum(qp["gaps"] for served in self.served for qp in served["qps"])

    def overtaken(self):
        """Of those, the ones that a move may have made: the lab's own veths let some overtake as well."""
        count = 0
        for move in self.moves:
            pair = self.lab.senders.index(move["host"])
            qpn = int(move["subject"].rsplit(" ", 1)[1], 16)
            at_ns = self.onset_ns + move["at_s"] * 1e9
            count += sum(at_ns - BEFORE_NS < gap < at_ns + AFTER_NS
                         for qp in self.served[pair]["qps"] if qp["qpn"] == qpn for gap in qp["gap_ns"])
        return count

    def whole(self):
        return all(not served["icrc_errors"] and not served["invalid"] for served in self.served)


def finish(process):
    out, error = process.communicate(timeout=60)
    if process.returncode:
        raise RuntimeError(f"roceflow: {error}")
    return json.loads(out)
