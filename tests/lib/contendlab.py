# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs that share spines by their ports: the same traffic with static ECMP and steered, measured at the
receivers."""
import collections
import json
import time

import clocklab
import labtest

BIN_MS = 20
RATE_MBIT = 60      # of a link of the fabric
PART = 0.75         # of it: the demand on one spine with the best placement
WINDOW = 8          # packets of 4 KiB
WARM_S, HOT_S = 1.5, 3.8
SECOND_S = 0.7      # delay of the second of two jobs
SETTLE_S = 0.5      # from the onset to the begin of the measurement
LATE_S = 1.5        # from the onset: later moves are late; delays are measured from here on
REST_S = 2.5        # from the onset: there are no later moves
END_S = HOT_S - 0.2
MESSAGE = 65536
PACKET = 4096 + 44
PAYLOAD_PART = 4096 / PACKET
# Serialization time of a packet; the lab's token bucket forwards one packet at once.
PACKET_US = PACKET * 8 / RATE_MBIT
LINKS = 2
CANDIDATES = 24     # sets of numbers of one lookup
CONFIG = ("paths: {{ probe_interval: 5ms, standby_interval: {standby_ms}ms, dead_after: 1s, return_after: 1s }}\n"
          "mesh: {{ pair_interval: {pair_ms}ms }}\n"
          "qps: {{ idle: 3s }}\n"
          "steer: {{ mode: off, capacity: {rate}Mbit }}\n")


# Two jobs have 12 pairs of addresses among 8 hosts: with the intervals of the streams, probes took 16 of the
# 60 Mbit/s of each link of two spines, and the rest was less than the demand of the jobs.
PROBED = {False: {"standby_ms": 10, "pair_ms": 10}, True: {"standby_ms": 20, "pair_ms": 50}}


class Fabric(labtest.Lab):
    """Half of the hosts on either leaf, slow spines, synced daemons."""

    def __init__(self, name, spines, pairs, both_ways=False):
        super().__init__(name, "--hosts", str(2 * pairs), "--leaves", "2", "--spines", str(spines),
                         "--rate", f"{RATE_MBIT}mbit", "--queue", "4000000", "--mtu", "4200", "--queues", "1",
                         *labtest.ALL_ICMP)
        self.spines, self.pairs, self.probed = spines, pairs, PROBED[both_ways]
        self.near = [f"h{i + 1}" for i in range(pairs)]
        self.far = [f"h{pairs + i + 1}" for i in range(pairs)]
        self.routes = [(stream.source, stream.target)
                       for stream in (jobs_of(self) if both_ways else streams_of(self, pairs))]
        self.senders = sorted({source for source, _ in self.routes})
        self.trickles = []
        self.via = collections.defaultdict(dict)  # of (from, to): {source port: spine}

    def __enter__(self):
        super().__enter__()
        try:
            clocklab.append_config(self, CONFIG.format(rate=RATE_MBIT, **self.probed))
            self("start")
            self.addresses = {host["name"]: host["address"] for host in self.status()["hosts"]}
            for host in self.senders:
                self.good(host, "escapement", "clock", "wait", "--bound", "10us", "--timeout",
                          "40s", timeout=60)
            self.trickle()
            if not labtest.wait_for(lambda: all(map(self.knows_paths, self.senders)), 40, 0.5):
                raise RuntimeError("not all paths were found")
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind, *_):
        super().__exit__(kind)
        for process in self.trickles:
            process.kill()
            process.communicate()

    def trickle(self):
        """Paths are probed between addresses with queue pairs: one on each route, with a negligible rate."""
        ends = [("--interface", "eth1", "--control-port", str(20000 + number))
                for number in range(len(self.routes))]
        for number, (_, target) in enumerate(self.routes):
            self.trickles.append(self.start(
                target, labtest.ROCEFLOW, "serve", "--listen", self.addresses[target], "--qpn",
                str(0x40 + number), "--idle", "3600", *ends[number]))
        time.sleep(1)
        for number, (source, target) in enumerate(self.routes):
            self.trickles.append(self.start(
                source, labtest.ROCEFLOW, "send", "--to", self.addresses[target], "--qpn",
                str(0x80 + number), "--qps", "1", "--size", "512", "--qp-rate", "40k",
                "--seconds", "3600", "--give-up", "60", *ends[number]))

    def knows_paths(self, host):
        known = {found["to"] for found in self.json(host, "paths")["pairs"]
                 if found.get("complete") and found.get("groups") == self.spines}
        return all(self.addresses[target] in known for source, target in self.routes
                   if source == host)

    def learn(self, source, target, sports):
        """The spine of each source port, by the leaf's routing table."""
        known = self.via[source, target]
        missing = sorted(set(sports) - set(known))
        if missing:
            for entry in json.loads(self("path", source, target, "-j", "--sport",
                                         ",".join(map(str, missing)))):
                known[entry["sport"]] = entry["via"]
        return known

    def steer(self, on):
        for host in self.senders:
            if on:
                self.good(host, "escapement", "steer", "auto", "on")
            else:
                self.good(host, "escapement", "mode", "observe")

    def senders_events(self, since_ns, *kinds):
        """Events of all senders, sorted by time."""
        found = [{"host": host, **event} for host in self.senders
                 for event in self.events(host, *kinds, since_ns=since_ns)]
        return sorted(found, key=lambda event: event["time_ns"])


def rxe_port(local_qpn, remote_qpn):
    """The source port of soft-RoCE and of roceflow."""
    mixed = local_qpn * remote_qpn
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    return ((mixed & 0x3fff) ^ (mixed & 0xfc000) >> 14) | 0xc000


class Stream:
    """Queue pairs from one host to another. Their numbers are drawn; these give the source ports, and ECMP routes by
    the ports."""

    def __init__(self, source, target, qps, rate_bps, warm_s=WARM_S):
        self.source, self.target, self.qps = source, target, qps
        self.rate_bps, self.warm_s = rate_bps, warm_s

    def draw(self, draw):
        local, remote = draw.randrange(0x100, 0xff00), draw.randrange(0x100, 0xff00)
        return local, remote, [rxe_port(local + i, remote + i) for i in range(self.qps)]

    def take(self, drawn):
        self.local, self.remote, self.own = drawn

    def delivered_bps(self):
        return self.qps * self.rate_bps * PAYLOAD_PART


def demand_bps(lab, streams, ports):
    """{(from the near leaf, spine): bit/s} of streams with these source ports, a list each."""
    demand = collections.Counter()
    for stream, sports in zip(streams, ports):
        via = lab.learn(stream.source, stream.target, sports)
        for sport in sports:
            demand[stream.source in lab.near, via[sport]] += stream.rate_bps
    return demand


def overloaded(demand):
    """Uplinks with a demand above the rate of a link."""
    return [end for end, bps in demand.items() if bps > RATE_MBIT * 1e6]


def place(lab, streams, draw, contended):
    """Draws numbers with which ECMP overloads a link (@contended) or does not."""
    while True:
        drawn = [[stream.draw(draw) for _ in range(CANDIDATES)] for stream in streams]
        for stream, sets in zip(streams, drawn):
            lab.learn(stream.source, stream.target, [port for numbers in sets for port in numbers[2]])
        for sets in zip(*drawn):
            if bool(overloaded(demand_bps(lab, streams, [numbers[2] for numbers in sets]))) == contended:
                for stream, numbers in zip(streams, sets):
                    stream.take(numbers)
                return streams


def streams_of(lab, qps):
    """@qps queue pairs from the near leaf to the far one; there is a placement with at most PART of each link."""
    rate = PART * RATE_MBIT * 1e6 / -(-qps // lab.spines)
    return [Stream(lab.near[i], lab.far[i], qps // lab.pairs, rate) for i in range(lab.pairs)]


# Of a link: a queue pair of the ring and of the all-to-all. Two of the ring on one spine, or one of the others too
# many, overload it; the best placement needs at most PART of each link. The rest is for probes, which take a tenth of
# such a slow link.
JOB_PARTS = {2: (0.45, 0.15), 3: (0.6, 0.15), 4: (0.55, 0.25)}


def jobs_of(lab):
    """A ring of four, each neighbour on the other leaf, and an all-to-all of four that starts later. Streams within
    a leaf do not use the fabric, and are omitted."""
    ring, to_all = (part * RATE_MBIT * 1e6 for part in JOB_PARTS[lab.spines])
    ranks = [lab.near[0], lab.far[0], lab.near[1], lab.far[1]]
    found = [Stream(rank, ranks[(i + 1) % 4], 1, ring) for i, rank in enumerate(ranks)]
    for one in lab.near[2:4]:
        for other in lab.far[2:4]:
            found += [Stream(one, other, 1, to_all, WARM_S + SECOND_S),
                      Stream(other, one, 1, to_all, WARM_S + SECOND_S)]
    return found


class Run:
    """One run: a start at low load, the onset of the load, its results. With two jobs the onset is that of the
    second."""

    def __init__(self, lab, streams, part=1):
        self.lab, self.streams, self.part = lab, streams, part
        self.began_ns = time.time_ns()
        serving = [lab.start(stream.target, *self.server_words(i, stream))
                   for i, stream in enumerate(streams)]
        time.sleep(0.3 + 0.05 * len(streams))
        sending = [lab.start(stream.source, *self.sender_words(i, stream))
                   for i, stream in enumerate(streams)]
        self.sent = [finish(process) for process in sending]
        self.served = [finish(process) for process in serving]
        self.onset_ns = max(sent["onset_ns"] for sent in self.sent)
        self.first_s = (min(sent["onset_ns"] for sent in self.sent) - self.onset_ns) / 1e9
        self.demand_rate = part * sum(stream.delivered_bps() for stream in streams) / 8
        self.moves = self.port_changes()
        self.demand = demand_bps(lab, streams, self.ports_at_the_end())

    def server_words(self, number, stream):
        return [labtest.ROCEFLOW, "serve", "--listen", self.lab.addresses[stream.target],
                "--interface", "eth1", "--qpn", str(stream.remote), "--bin", str(BIN_MS),
                "--control-port", str(18515 + number), "--delays", "--json"]

    def sender_words(self, number, stream):
        longest = max(other.warm_s for other in self.streams)
        # What a busy machine delayed is sent later, except in a run without contention.
        catch_up = "20" if self.part == 1 else "1"
        return [*labtest.sender(number), "--to", self.lab.addresses[stream.target], "--interface",
                "eth1", "--control-port", str(18515 + number), "--qps", str(stream.qps),
                "--qpn", str(stream.local),
                "--qp-rate", str(int(self.part * stream.rate_bps)), "--window", str(WINDOW),
                "--size", str(MESSAGE), "--mtu", "4096", "--depth", "1", "--catch-up", catch_up,
                "--warm", str(stream.warm_s), "--seconds", str(longest + HOT_S), "--timeout",
                "3000", "--give-up", "60", "--op", "write", "--delays", "--json"]

    def events(self, *kinds):
        """Those of this run; at_s is from the onset."""
        ahead_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.time_ns()
        found = self.lab.senders_events(self.began_ns, *kinds)
        for event in found:
            event["at_s"] = (event["time_ns"] + ahead_ns - self.onset_ns) / 1e9
        return found

    def port_changes(self):
        """The packets that the receivers got from another source port than the packet before them of their queue
        pair, sorted by time; at_s is from the onset."""
        found = []
        for number, served in enumerate(self.served):
            for qp, row in enumerate(served["qps"]):
                for before, after in zip(row["ports"], row["ports"][1:]):
                    found.append({"at_s": (after["at_ns"] - self.onset_ns) / 1e9, "stream": number, "qp": qp,
                                  "from": before["sport"], "to": after["sport"]})
        return sorted(found, key=lambda change: change["at_s"])

    def ports_at_the_end(self):
        """The source ports of the queue pairs' last packets, a list for each stream."""
        return [[row["ports"][-1]["sport"] for row in served["qps"]] for served in self.served]

    def share(self, after_s=SETTLE_S, until_s=END_S):
        """Of the demand, which the best placement carries."""
        return self.delivered(after_s, until_s) / self.demand_rate

    def delivered(self, after_s, until_s):
        """Bytes of payload per second; times from the onset."""
        total = 0
        for served in self.served:
            for n, count in enumerate(served["bins"]):
                at = (served["bins_start_ns"] + n * served["bin_ns"] - self.onset_ns) / 1e9
                if after_s <= at < until_s:
                    total += count
        return total / (until_s - after_s)

    def delays_us(self, after_s, until_s):
        """Delays of packets, a list for each queue pair; times from the onset."""
        since, until = (self.onset_ns + at * 1e9 for at in (after_s, until_s))
        return [[delay_ns / 1000 for at, delay_ns in zip(qp["delays"][::2], qp["delays"][1::2]) if since <= at < until]
                for served in self.served for qp in served["qps"]]

    def floor_us(self):
        """Of a data packet: the median at low load, and its serialization on each link."""
        calm = [us for delays in self.delays_us(self.first_s - WARM_S / 2, self.first_s - 0.1) for us in delays]
        return median(calm) + LINKS * PACKET_US

    def worst_us(self, after_s=LATE_S, until_s=END_S):
        """The largest median of a queue pair's delays, with the serialization on the links."""
        return max(median(delays) for delays in self.delays_us(after_s, until_s) if delays) + \
            LINKS * PACKET_US

    def moves_after(self, at_s):
        return [move for move in self.moves if move["at_s"] > at_s]

    def socket_drops(self):
        return sum(end["socket_drops"] for end in self.sent + self.served)

    def settled_s(self, least, window_s=0.2):
        """The time from which on every 200 ms carry at least @least bytes per second; None: never. Of 100 ms a
        pause of the machine of 5 ms would be 5%."""
        settled, at = None, 0.0
        while at + window_s <= END_S:
            if self.delivered(at, at + window_s) < least:
                settled = None
            elif settled is None:
                settled = at
            at += BIN_MS / 1e3
        return settled

    def reordered(self):
        """Packets that the receivers got out of sequence from another port than the packet before them: only a move
        causes these."""
        return sum(qp["gaps_new_port"] for served in self.served for qp in served["qps"])

    def gaps(self):
        """All packets out of sequence: on a busy machine the lab reorders some (9 of about 20,000 without any move,
        at a load average of 10 on two CPUs)."""
        return sum(qp["gaps"] for served in self.served for qp in served["qps"])

    def whole(self):
        return all(not served["icrc_errors"] and not served["invalid"] for served in self.served)


def median(values):
    """None of nothing."""
    values = sorted(values)
    return values[len(values) // 2] if values else None


def finish(process):
    out, error = process.communicate(timeout=60)
    if process.returncode:
        raise RuntimeError(f"roceflow: {error}")
    return json.loads(out)
