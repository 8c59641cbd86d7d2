# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of one-way delays share: a fabric in step, one flow and its truth, and the
comparison of what a host shows with that truth."""
import json
import os
import threading

import clocklab
import labtest
import owdmap
import owdtruth
from fabrictruth import Fabric

LOSSY = os.path.join(labtest.BUILD, "tests", "tools", "lossy.bpf.o")
PINS = "/sys/fs/bpf/lossy"
PATIENCE_S = 60
# The witness stands beside the programs: see owdtruth.py.
BESIDE_NS = 1000
RECEIPT_MESSAGE = 0x04
ENDS = {2, 3, 4, 5, 8, 9, 10, 11}  # LAST and ONLY, of SEND and WRITE; in the low five bits


def fabric_of(lab):
    return Fabric(lab.status()["hosts"], clocklab.path_of(lab))


def configure(lab, host, change):
    """Rewrites a host's configuration; gives back what undoes it."""
    path = clocklab.path_of(lab, host, "escapement.yaml")
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    write(change(before))
    return lambda: write(before)


def set_receipts(lab, host, words):
    """The configuration's `receipts`, as YAML; a daemon that runs takes it at once."""
    def change(text):
        lines = [line for line in text.splitlines() if not line.startswith("receipts:")]
        return "\n".join([*lines, f"receipts: {words}"]) + "\n"
    configure(lab, host, change)
    if "pid" in lab.host(host):
        lab.good(host, "escapement", "reload")


def in_step(lab):
    """All hosts have synced time."""
    fabric = fabric_of(lab)
    return labtest.wait_for(
        lambda: {clock["state"] for clock in fabric.clocks().values()} == {"synced"}, PATIENCE_S)


class Run:
    """
    One flow from @client to @server: what both said, the truth, what the sender's map holds. Its
    queue pairs have numbers of their own: nothing is there from a run before.
    """
    first_qpn = 0x100

    def __init__(self, lab, server, client, *options, six=False, server_options=(),
                 arrival=owdtruth.ARRIVED, owds=True, bound_ns=None):
        """@owds: the client has the map to read afterwards. @bound_ns: when its clocks have none."""
        names, numbers = [client, server], ("--qpn", str(Run.first_qpn))
        Run.first_qpn += 0x40
        self.bounds = [bound_ns or 0]
        over = threading.Event()
        watcher = threading.Thread(target=self.watch_clocks, args=(lab, names, over))
        if bound_ns is None and owds:
            watcher.start()
        with owdtruth.Witness(lab, names) as witness:
            self.served, self.sent = labtest.flow(
                lab, server, client, *numbers, *options, six=six,
                server_options=(*numbers, *server_options))
        self.owds = owdmap.owds(lab, client) if owds else {}
        over.set()
        if watcher.ident:
            watcher.join()
        self.bound_ns = max(self.bounds)
        self.truth = witness.truth(arrival)

    def watch_clocks(self, lab, names, over):
        fabric = fabric_of(lab)
        while not over.is_set():
            clocks = [fabric.ask(name, "clock") for name in names]
            self.bounds.append(sum(clock.get("bound_ns", 0) for clock in clocks))
            over.wait(0.1)

    def qps(self):
        """[(the client's report of a queue pair, its Owd or None)]"""
        return [(qp, self.owds.get(owdmap.Key(qp["src"], qp["dst"], qp["dest_qpn"], owdmap.TX, 0)))
                for qp in self.sent["qps"]]


def bound_of(owd, run):
    """The largest bound that any sample of a run may have."""
    return max([window.bound_ns for window in owd.windows if window.samples] +
               [owd.last_bound_ns, run.bound_ns])


def check_span(tap, label, owd, delays, unseen, bound):
    """Minimum, median, 99th and maximum against the true @delays: some may have no sample, and of
    @unseen samples the truth is not known."""
    missing = max(0, len(delays) + unseen - owd.samples)
    said = []
    for name, share, shown in (("minimum", 0, owd.min_ns),
                               ("median", 0.5, owdmap.quantile_span(owd, 0.5)),
                               ("99th", 0.99, owdmap.quantile_span(owd, 0.99)),
                               ("maximum", 1, owd.max_ns)):
        true = [owdtruth.quantile(sorted(part), share) for part in zip(*delays)]
        bucket = ", 1 us and its bucket" if isinstance(shown, tuple) else " and 1 us"
        tap.check(owdtruth.is_quantile(delays, shown, share, missing, unseen, bound, BESIDE_NS),
                  f"{label}: the {name} is the truth's within clock bound{bucket}",
                  f"true {true}, shown {shown} ns, clock bound {bound} ns, {missing} without a sample, {unseen} unseen")
        said.append(f"{name} {true[1]}: {shown}")
    tap.note(f"{label}: {owd.samples} samples, clock bound {bound} ns; true: shown ns: "
             + ", ".join(said))


def check_sampled(tap, label, run, qp, mask):
    """A receipt for every sampled PSN that came, and for no other. Their true delays, of how many it is
    not known, and whether every packet was sent once only."""
    packets = run.truth.of_qp(qp["dest_qpn"])
    receipted = run.truth.receipted(qp["dest_qpn"])
    # A queue pair's first packet begins its sequence: nothing vouches for its PSN yet.
    wanted = {psn for psn, packet in packets.items()
              if not psn & mask and packet.arrived and psn != qp["first_psn"] & owdtruth.PSN_MASK}
    others = set(receipted) - wanted
    # A capture may miss the second time, the sender knows.
    once = not qp["retransmitted"] and all(len(packet.leaving) <= 1 for packet in packets.values())
    tap.check(wanted <= set(receipted) and (len(receipted) == len(set(receipted)) or not once),
              f"{label}: each sampled PSN has one receipt",
              f"{len(wanted)} sampled, {len(receipted)} receipts; without: "
              f"{sorted(wanted - set(receipted))[:8]}")
    strays = [psn for psn in others if packets[psn].opcode & 0x1f not in ENDS]
    tap.check(len(strays) <= run.truth.missed, f"{label}: the others are ends of timed messages",
              sorted(strays)[:8])
    delays = [packets[psn].first() for psn in set(receipted) if psn in packets]
    unseen = sum(1 for psn in set(receipted)
                 if not packets[psn].first() and len(packets[psn].leaving) == 1)
    tap.check(unseen <= run.truth.missed <= len(packets) // 10,
              f"{label}: nearly all of them were seen at both ends",
              f"{unseen} sampled, {run.truth.missed} of {len(packets)} in all were not")
    return [delay for delay in delays if delay], unseen, once


def replaced(run, qp):
    """PSNs whose receipt came after another packet had taken the place of their record: an END's by the
    next sample at any time, a sample's after 64 of its kind (bpf/README.md). On an idle fabric that
    is a machine that was away for that long."""
    packets = run.truth.of_qp(qp["dest_qpn"])
    receipted = [psn for psn in run.truth.receipted(qp["dest_qpn"]) if packets[psn].leaving]
    arrived = {r.about_psn: r.ktime_ns for r in run.truth.receipts_ported
               if r.about_qpn == qp["dest_qpn"]}
    return {psn for psn in receipted for other in receipted
            if psn != other and owdmap.record_index(psn) == owdmap.record_index(other) and
            packets[psn].leaving[0] < packets[other].leaving[0] < arrived.get(psn, float("inf"))}


def explained(owd, delays, bound):
    """{floor of a bucket: samples in it} for which there is no true delay of their own left."""
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
    """No sample that is not of the first transmission of a PSN that came the first time."""
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
        tap.check(owd.samples <= owd.receipts <= owd.noted, f"{name}: samples <= receipts <= notes",
                  owd[:5])
        sampled = [packet for psn, packet in packets.items() if not psn & mask and packet.leaving]
        again = [packet for packet in sampled if len(packet.leaving) > 1 and not packet.first()]
        tap.check(owd.spoiled + owd.overwritten >= len(again),
                  f"{name}: what came only when sent again gave none ({len(again)} PSNs)", owd[:5])
        tap.note(f"{name}: {len(sampled)} sampled PSNs, {len(again)} of them came only when sent "
                 f"again, {owd.noted} noted, {owd.receipts} receipts, {owd.spoiled} spoiled, "
                 f"{owd.overwritten} overwritten; longest shown {owd.max_ns}, true {longest} ns")


def check_intact(tap, label, run):
    """Nothing lost, nothing twice, by both programs' own counts; RC."""
    faults = {name: sum(qp[name] for qp in run.sent["qps"])
              for name in ("retransmitted", "timeouts", "send_errors", "naks")}
    faults.update({"server " + name: sum(qp[name] for qp in run.served["qps"])
                   for name in ("duplicates", "gaps", "invalid", "naks", "response_errors")})
    faults.update({"server " + name: run.served[name]
                   for name in ("unknown_qp", "socket_drops")})
    faults["undelivered"] = sum(qp["unique_packets"] for qp in run.sent["qps"]) - \
        sum(qp["delivered_packets"] for qp in run.served["qps"])
    tap.check(not any(faults.values()) and run.sent["packets"],
              f"{label}: all {run.sent['packets']} packets came, each once",
              {name: count for name, count in faults.items() if count})


def reasons(lab, host):
    """{reason: count at all hooks}"""
    hooks = ("xdp_ingress", "tc_ingress", "tc_egress")
    return {row["reason"]: sum(row.get(hook, 0) for hook in hooks)
            for row in lab.json(host, "status")["reasons"]}


def make_lossy(lab, spines=("spine1", "spine2"), leaves=("leaf1", "leaf2")):
    """From now on the fabric loses one in a hundred."""
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
    """{opcode: packets} that the fabric has lost."""
    lost = {}
    for spine in spines:
        for entry in json.loads(lab.good(spine, "bpftool", "-j", "map", "dump", "pinned",
                                         PINS + "/lossy_dropped")):
            key, value = entry["formatted"]["key"], entry["formatted"]["value"]
            lost[key] = lost.get(key, 0) + value
    return {key: value for key, value in lost.items() if value}
