# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of one-way delays share: one flow and its true delays, and the comparison of what a host shows
with them."""
import collections
import json
import os
import threading

import clocklab
import labtest
import owdmap
import owdtruth

LOSSY = os.path.join(labtest.BUILD, "tests", "tools", "lossy.bpf.o")
PINS = "/sys/fs/bpf/lossy"
PATIENCE_S = 60
# The witness runs beside the programs: see owdtruth.py.
BESIDE_NS = 1000
PAUSE_NS = 20000000
RECORD_YOUNG_NS = 1000000000  # TX_RECORD_YOUNG_NS
RECEIPT_MESSAGE = 0x04
UNMADE = ("receipt_rate", "receipt_clone", "receipt_timestamp")
ENDS = {2, 3, 4, 5, 8, 9, 10, 11}  # LAST and ONLY, of SEND and WRITE; in the low five bits


def configure(lab, host, change):
    """Rewrites a host's configuration; returns a function that restores it."""
    path = clocklab.path_of(lab, host, "escapement.yaml")
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    write(change(before))
    return lambda: write(before)


def set_receipts(lab, host, words):
    """Sets `receipts` of the configuration, as YAML; a daemon that runs is reloaded."""
    def change(text):
        lines = [line for line in text.splitlines() if not line.startswith("receipts:")]
        return "\n".join([*lines, f"receipts: {words}"]) + "\n"
    configure(lab, host, change)
    if "pid" in lab.host(host):
        lab.good(host, "escapement", "reload")


class Run:
    """One flow from @client to @server: the output of both, the true delays, the sender's map, and for how many packets
    the receiver counted a reason not to make a receipt. Its queue pair numbers are unique, so that the map has no entries
    of an earlier run."""
    first_qpn = 0x100

    def __init__(self, lab, server, client, *options, six=False, server_options=(),
                 arrival=owdtruth.ARRIVED, owds=True, bound_ns=None):
        """@owds: the client has the map to read afterwards. @bound_ns: for clocks without a bound."""
        names, numbers = [client, server], ("--qpn", str(Run.first_qpn))
        Run.first_qpn += 0x40
        self.bounds = [bound_ns or 0]
        over = threading.Event()
        watcher = threading.Thread(target=self.watch_clocks, args=(lab, names, over))
        alive = bound_ns is None and owds
        unmade = unmade_receipts(lab, server) if alive else 0
        before = reasons(lab, client) if alive else {}
        if alive:
            watcher.start()
        with owdtruth.Witness(lab, names) as witness:
            self.served, self.sent = labtest.flow(
                lab, server, client, *numbers, *options, six=six,
                server_options=(*numbers, *server_options))
        self.owds = owdmap.owds(lab, client) if owds else {}
        over.set()
        if alive:
            watcher.join()
        self.unmade = unmade_receipts(lab, server) - unmade if alive else 0
        self.client_reasons = {reason: count - before.get(reason, 0) for reason, count in reasons(lab, client).items()
                               if count != before.get(reason, 0)} if alive else {}
        self.bound_ns = max(self.bounds)
        self.truth = witness.truth(arrival)

    def watch_clocks(self, lab, names, over):
        fabric = clocklab.fabric_of(lab)
        while not over.is_set():
            clocks = [fabric.query(name, "clock") for name in names]
            self.bounds.append(sum(clock.get("bound_ns", 0) for clock in clocks))
            over.wait(0.1)

    def qps(self):
        """[(the client's report of a queue pair, its Owd or None)]"""
        return [(qp, self.owds.get(owdmap.Key(qp["src"], qp["dst"], qp["dest_qpn"], owdmap.TX, 0)))
                for qp in self.sent["qps"]]


def unmade_receipts(lab, host):
    why = reasons(lab, host)
    return sum(why.get(reason, 0) for reason in UNMADE)


def bound_of(owd, run):
    """The largest bound that any sample of a run may have."""
    return max([window.bound_ns for window in owd.windows if window.samples] +
               [owd.last_bound_ns, run.bound_ns])


def check_span(tap, label, owd, delays, unseen, bound):
    """Compares minimum, median, 99th percentile and maximum with the true @delays: some may have no sample, and the
    true delay of @unseen samples is unknown."""
    missing = max(0, len(delays) + unseen - owd.samples)
    figures = []
    for name, share, shown in (("minimum", 0, owd.min_ns),
                               ("median", 0.5, owdmap.quantile_span(owd, 0.5)),
                               ("99th", 0.99, owdmap.quantile_span(owd, 0.99)),
                               ("maximum", 1, owd.max_ns)):
        true = [owdtruth.quantile(sorted(part), share) for part in zip(*delays)]
        bucket = ", 1 us and its bucket" if isinstance(shown, tuple) else " and 1 us"
        tap.check(owdtruth.is_quantile(delays, shown, share, missing, unseen, bound, BESIDE_NS),
                  f"{label}: the {name} is the true one, within the clock bound{bucket}",
                  f"true {true}, shown {shown} ns, clock bound {bound} ns, {missing} without a sample, {unseen} unseen")
        figures.append(f"{name} {true[1]}: {shown}")
    tap.note(f"{label}: {owd.samples} samples, clock bound {bound} ns; true: shown ns: "
             + ", ".join(figures))


def check_sampled(tap, label, run, qp, mask):
    """A receipt, or a reason that the receiver counted, for every sampled PSN that was received, and none for another.
    Returns their true delays, the number of unknown ones, and whether every packet was sent once."""
    packets = run.truth.of_qp(qp["dest_qpn"])
    receipted = run.truth.receipted(qp["dest_qpn"])
    # The first packet begins the sequence of its queue pair, and is not sampled.
    wanted = {psn for psn, packet in packets.items()
              if not psn & mask and packet.arrived and psn != qp["first_psn"] & owdtruth.PSN_MASK}
    others = set(receipted) - wanted
    # The witness may miss the second transmission, the sender does not.
    once = not qp["retransmitted"] and all(len(packet.leaving) <= 1 for packet in packets.values())
    without = wanted - set(receipted)
    tap.check(len(without) <= run.unmade and (len(receipted) == len(set(receipted)) or not once),
              f"{label}: each sampled PSN has one receipt, or the receiver counted a reason",
              f"{len(wanted)} sampled, {len(receipted)} receipts, {run.unmade} reasons; without (ns from XDP to the stack, clones): "
              f"{[(psn, *packets[psn].stack_ns(), len(packets[psn].cloned)) for psn in sorted(without)[:8]]}")
    unexpected = [psn for psn in others if packets[psn].opcode & 0x1f not in ENDS]
    tap.check(len(unexpected) <= run.truth.missed, f"{label}: the others are ends of timed messages",
              sorted(unexpected)[:8])
    delays = [packets[psn].first() for psn in set(receipted) if psn in packets]
    unseen = sum(1 for psn in set(receipted)
                 if not packets[psn].first() and len(packets[psn].leaving) == 1)
    recorded = len(run.truth.packets)  # of all queue pairs, as those missed are
    tap.check(unseen <= run.truth.missed <= recorded // 10,
              f"{label}: nearly all of them were recorded at both ends",
              f"{unseen} sampled, {run.truth.missed} of {recorded} in all were not")
    return [delay for delay in delays if delay], unseen, once


def consumed(run, qp):
    """Receipts of a queue pair that the program of their receiver took, as far as the witness saw them."""
    return sum(r.about_qpn == qp["dest_qpn"] for r in run.truth.receipts_consumed)


def without_record(run, qp, mask):
    """PSNs whose receipt may have found no record (bpf/README.md): another packet had replaced it, that of an END the
    next sample, that of a sample after 64 others; or none was made of an END, since one of less than 1 s was pending
    there, as that of a first packet is, which gets no receipt. On an idle fabric a record is replaced where the machine
    paused. The program had a receipt before it was dropped; where the witness missed that, up to PAUSE_NS after the
    leaf's port."""
    packets = run.truth.of_qp(qp["dest_qpn"])
    receipted = {psn for psn in run.truth.receipted(qp["dest_qpn"]) if packets[psn].leaving}
    sampled = receipted | {psn for psn, packet in packets.items() if not psn & mask and packet.leaving}
    arrived = {r.about_psn: r.ktime_ns + PAUSE_NS for r in run.truth.receipts_ported
               if r.about_qpn == qp["dest_qpn"]}
    arrived.update((r.about_psn, r.ktime_ns) for r in run.truth.receipts_consumed if r.about_qpn == qp["dest_qpn"])
    same = collections.defaultdict(list)
    for psn in sampled:
        same[owdmap.record_index(psn)].append((packets[psn].leaving[0], psn))

    def is_without(psn):
        left, back = packets[psn].leaving[0], arrived.get(psn, float("inf"))
        others = [(when, other) for when, other in same[owdmap.record_index(psn)] if other != psn]
        return any(left < when < back for when, _ in others) or psn & mask and any(
            when < left < min(arrived.get(other, float("inf")), when + RECORD_YOUNG_NS) for when, other in others)
    return {psn for psn in receipted if is_without(psn)}


def explained(owd, delays, bound):
    """{floor of a bucket: samples in it} that have no true delay, if each true delay is used once."""
    left, without = sorted(delays, key=lambda delay: delay.high), {}
    for bucket in sorted(owd.histogram):
        low = owdmap.floor_ns(bucket) - bound if bucket else -bound
        high, count, kept = owdmap.floor_ns(bucket + 1) + bound, owd.histogram[bucket], []
        for delay in left:
            if count and min(delay.low, delay.delay - BESIDE_NS) < high and delay.high >= low:
                count -= 1
            else:
                kept.append(delay)
        left = kept
        if count:
            without[owdmap.floor_ns(bucket)] = count
    return without


def check_true_samples(tap, label, run, mask):
    """Each sample is of a first transmission that was received."""
    for number, (qp, owd) in enumerate(run.qps()):
        name = f"{label}, QP {number}"
        if not tap.check(owd and owd.samples, f"{name}: there are samples", owd):
            continue
        packets = run.truth.of_qp(qp["dest_qpn"])
        first = [packet.first() for packet in packets.values() if packet.first()]
        left = explained(owd, first, bound_of(owd, run))
        longest = max(delay.high for delay in first)
        tap.check(sum(left.values()) <= run.truth.missed,
                  f"{name}: each of {owd.samples} samples is a first transmission's delay",
                  f"samples at ns without one: {left}; the longest true {longest}")
        tap.check(owd.samples <= owd.receipts <= owd.sent, f"{name}: samples <= receipts <= samples sent",
                  owd[:5])
        sampled = [packet for psn, packet in packets.items() if not psn & mask and packet.leaving]
        again = [packet for packet in sampled if len(packet.leaving) > 1 and not packet.first()]
        tap.check(owd.discarded + owd.expired >= len(again),
                  f"{name}: PSNs received only when retransmitted gave none ({len(again)})", owd[:5])
        tap.note(f"{name}: {len(sampled)} sampled PSNs, {len(again)} of them received only when "
                 f"retransmitted, {owd.sent} samples sent, {owd.receipts} receipts, {owd.discarded} discarded, "
                 f"{owd.expired} expired; longest shown {owd.max_ns}, true {longest} ns")


def check_intact(tap, label, run):
    """Nothing lost, nothing twice, by the counts of both programs; RC."""
    faults = {name: sum(qp[name] for qp in run.sent["qps"])
              for name in ("retransmitted", "timeouts", "send_errors", "naks")}
    faults.update({"server " + name: sum(qp[name] for qp in run.served["qps"])
                   for name in ("duplicates", "gaps", "invalid", "naks", "response_errors")})
    faults.update({"server " + name: run.served[name]
                   for name in ("unknown_qp", "socket_drops")})
    faults["undelivered"] = sum(qp["unique_packets"] for qp in run.sent["qps"]) - \
        sum(qp["delivered_packets"] for qp in run.served["qps"])
    tap.check(not any(faults.values()) and run.sent["packets"],
              f"{label}: all {run.sent['packets']} packets were received, each once",
              {name: count for name, count in faults.items() if count})


def reasons(lab, host):
    """{reason: count at all hooks}"""
    hooks = ("xdp_ingress", "tc_ingress", "tc_egress")
    return {row["reason"]: sum(row.get(hook, 0) for hook in hooks)
            for row in lab.json(host, "status")["reasons"]}


def make_lossy(lab, spines=("spine1", "spine2"), leaves=("leaf1", "leaf2")):
    """From now on the fabric drops one packet in a hundred."""
    for spine in spines:
        lab.good(spine, "mkdir", "-p", PINS)
        lab.good(spine, "bpftool", "prog", "loadall", LOSSY, PINS, "pinmaps", PINS)
        for leaf in leaves:
            lab.good(spine, "tc", "qdisc", "add", "dev", leaf, "clsact")
            lab.good(spine, "tc", "filter", "add", "dev", leaf, "ingress", "prio", "1", "bpf",
                     "da", "object-pinned", PINS + "/lossy")


def end_lossy(lab, spines=("spine1", "spine2"), leaves=("leaf1", "leaf2")):
    for spine in spines:
        for leaf in leaves:
            lab.good(spine, "tc", "qdisc", "del", "dev", leaf, "clsact")
        lab.good(spine, "rm", "-rf", PINS)


def dropped(lab, spines=("spine1", "spine2")):
    """{opcode: packets} that the fabric has dropped."""
    lost = {}
    for spine in spines:
        for entry in json.loads(lab.good(spine, "bpftool", "-j", "map", "dump", "pinned",
                                         PINS + "/lossy_dropped")):
            key, value = entry["formatted"]["key"], entry["formatted"]["value"]
            lost[key] = lost.get(key, 0) + value
    return {key: value for key, value in lost.items() if value}
