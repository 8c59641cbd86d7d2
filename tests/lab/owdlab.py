# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of one-way delays share: a fabric in step, one flow and its truth, and the
comparison of what a host shows with that truth."""
import json
import os

import clocklab
import labtest
import owdmap
import owdtruth
from fabrictruth import Fabric

LOSSY = os.path.join(labtest.BUILD, "tests", "lab", "lossy.bpf.o")
PINS = "/sys/fs/bpf/lossy"
PATIENCE_S = 60
# The witness stands a little outside of the programs: see owdtruth.py. The rest is ours to prove.
BESIDE_NS = 1000
RECEIPT_MESSAGE = 0x04
ENDS = {2, 3, 4, 5, 8, 9, 10, 11}  # LAST and ONLY, of SEND and WRITE; in the low five bits


def fabric_of(lab):
    return Fabric(lab.status()["hosts"], clocklab.path_of(lab))


def in_step(lab):
    """All hosts have synced time."""
    fabric = fabric_of(lab)
    return labtest.wait_for(
        lambda: {clock["state"] for clock in fabric.clocks().values()} == {"synced"}, PATIENCE_S)


def clock_bound_ns(lab, *names):
    """What two hosts' clocks may differ by, as they say."""
    fabric = fabric_of(lab)
    return sum(fabric.ask(name, "clock")["bound_ns"] for name in names)


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
        clocks = bound_ns is None and owds
        self.bound_ns = clock_bound_ns(lab, *names) if clocks else bound_ns or 0
        with owdtruth.Witness(lab, names) as witness:
            self.served, self.sent = labtest.flow(
                lab, server, client, *numbers, *options, six=six,
                server_options=(*numbers, *server_options))
        self.owds = owdmap.owds(lab, client) if owds else {}
        if clocks:
            self.bound_ns = max(self.bound_ns, clock_bound_ns(lab, *names))
        self.truth = witness.truth(arrival)

    def qps(self):
        """[(the client's report of a queue pair, its Owd or None)]"""
        return [(qp, self.owds.get(owdmap.Key(qp["src"], qp["dst"], qp["dest_qpn"], owdmap.TX, 0)))
                for qp in self.sent["qps"]]


def bound_of(owd, run):
    """The largest bound that any sample of a run may have."""
    return max([window.bound_ns for window in owd.windows if window.samples] +
               [owd.last_bound_ns, run.bound_ns])


def check_span(tap, label, owd, delays, tolerance):
    """Minimum, median, 99th and maximum against the sorted true @delays."""
    shown = {}
    for name, share in (("median", 0.5), ("99th", 0.99)):
        low, high = owdmap.quantile_span(owd, share)
        true = owdtruth.quantile(delays, share)
        shown[name] = (true, low, high)
        tap.check(low - tolerance <= true < high + tolerance,
                  f"{label}: the {name} is the truth's within clock bound, 1 us and its bucket",
                  f"true {true} ns, shown {low} .. {high} ns, tolerance {tolerance} ns")
    tap.check(abs(owd.min_ns - delays[0]) <= tolerance,
              f"{label}: the minimum is the truth's within clock bound and 1 us",
              f"true {delays[:3]}, shown {owd.min_ns} ns, tolerance {tolerance} ns")
    # The largest: an interrupt may hit the witness between XDP and its own stamp.
    tap.check(owdtruth.near(delays, owd.max_ns, len(delays) - 1, 1, tolerance),
              f"{label}: so is the maximum",
              f"true {delays[-3:]}, shown {owd.max_ns} ns, tolerance {tolerance} ns")
    tap.note(f"{label}: {len(delays)} samples, tolerance {tolerance} ns; min true {delays[0]} shown "
             f"{owd.min_ns}; p50 {shown['median']}; p99 {shown['99th']}; max true {delays[-1]} "
             f"shown {owd.max_ns}")


def check_sampled(tap, label, run, qp, mask):
    """A receipt for every sampled PSN that came, and for no other. The sorted true delays."""
    packets = run.truth.of_qp(qp["dest_qpn"])
    receipted = run.truth.receipted(qp["dest_qpn"])
    wanted = {psn for psn, packet in packets.items() if not psn & mask and packet.arrived}
    others = set(receipted) - wanted
    tap.check(wanted <= set(receipted) and len(receipted) == len(set(receipted)),
              f"{label}: each sampled PSN has one receipt",
              f"{len(wanted)} sampled, {len(receipted)} receipts; without: "
              f"{sorted(wanted - set(receipted))[:8]}")
    tap.check(all(packets[psn].opcode & 0x1f in ENDS for psn in others),
              f"{label}: the others are ends of timed messages", sorted(others)[:8])
    delays = [packets[psn].delay_ns() for psn in set(receipted)]
    if not tap.check(None not in delays, f"{label}: each of them left once and came once"):
        delays = [delay for delay in delays if delay is not None]
    return sorted(delays)


def explained(owd, delays, tolerance):
    """Samples of the histogram for which there is no true delay of their own left."""
    left, without = sorted(delays), {}
    for bucket in sorted(owd.histogram):
        low, high = owdmap.floor_ns(bucket) - tolerance, owdmap.floor_ns(bucket + 1) + tolerance
        if bucket == 0:
            low = -tolerance
        count, kept = owd.histogram[bucket], []
        for delay in left:
            if count and low <= delay < high:
                count -= 1
            else:
                kept.append(delay)
        left = kept
        if count:
            without[owdmap.floor_ns(bucket)] = count
    return without


def check_true_samples(tap, label, run, mask):
    """No sample that is not the one transmission of a PSN that came the first time."""
    again = 0
    for number, (qp, owd) in enumerate(run.qps()):
        name = f"{label}, QP {number}"
        packets = run.truth.of_qp(qp["dest_qpn"])
        if not tap.check(owd and owd.samples, f"{name}: there are samples", owd):
            continue
        first = [p.arrived[0] - p.leaving[0] for p in packets.values() if p.arrived and p.leaving
                 and (len(p.leaving) == 1 or p.arrived[0] < p.leaving[1])]
        again += sum(1 for psn, p in packets.items() if not psn & mask and len(p.leaving) > 1)
        left = explained(owd, first, bound_of(owd, run) + BESIDE_NS)
        tap.check(not left, f"{name}: each of {owd.samples} samples is a first transmission's delay",
                  f"samples at ns without one: {left}; the longest true {max(first)}")
        sampled = sum(1 for psn, p in packets.items() if not psn & mask and p.leaving)
        tap.check(owd.samples <= owd.receipts <= owd.noted,
                  f"{name}: samples <= receipts <= notes", owd[:5])
        tap.note(f"{name}: {sampled} sampled PSNs, {again} of them sent again, {owd.noted} noted, "
                 f"{owd.receipts} receipts, {owd.spoiled} spoiled, {owd.overwritten} overwritten; "
                 f"max shown {owd.max_ns}, true {max(first)}")
    tap.check(sum(owd.spoiled for _, owd in run.qps() if owd) > 0 or again == 0,
              f"{label}: a PSN that is sent again spoils its note")


def check_intact(tap, label, run):
    """Nothing lost, nothing twice, by both programs' own counts; RC."""
    faults = {name: sum(qp[name] for qp in run.sent["qps"])
              for name in ("retransmitted", "timeouts", "send_errors", "naks")}
    faults.update({"server " + name: sum(qp[name] for qp in run.served["qps"])
                   for name in ("duplicates", "gaps", "invalid", "naks", "response_errors")})
    faults.update({"server " + name: run.served[name]
                   for name in ("icrc_errors", "unknown_qp", "socket_drops")})
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
