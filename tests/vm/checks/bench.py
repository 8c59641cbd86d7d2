# SPDX-License-Identifier: BSD-2-Clause
"""The two machines under test, and how their counts are read."""
import collections
import contextlib
import difflib
import json
import os
import sys
import time

import rocev2
from emulation import capture, channel, image, machine, perftest
from tap import Skip

CLIENT, SERVER = "A", "B"
GUESTS = (CLIENT, SERVER)
FULL = "--full" in sys.argv[1:]  # more repetitions, for `make check-long`
HW_COUNTERS = "/sys/class/infiniband/{}/ports/1/hw_counters"
STILL_READS = 2  # readings in a row that agree: traffic is over
STILL_GAP_SECONDS = 0.15
STILL_SECONDS = 30

GROWING = ("packets", "bytes", "payload_bytes", "messages", "duplicates", "retransmits",
           "psn_gaps", "acks", "naks", "rnr_naks", "ce", "cnps")

KERNEL = tuple(int(part) for part in image.SERIES.split("."))  # of the guests
ATTACH = "native" if KERNEL >= (6, 3) else "skb"  # of virtio, by default
TC = ("tcx", "clsact") if KERNEL >= (6, 6) else ("clsact",)  # the first by default

# What rxe counts when it repairs a loss.
REPAIRS = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err",
           "retry_exceeded_err", "rcvd_rnr_err", "send_rnr_err")

Count = collections.namedtuple("Count", "packets bytes")


def need_kernel(version, what):
    """Skips the test where the guests' kernel is older: what of it came with @version."""
    if KERNEL < version:
        raise Skip(f"{what}, which came with Linux {version[0]}.{version[1]}")


def each(function):
    """In both guests at once."""
    return machine.each(function, GUESTS)


@contextlib.contextmanager
def nice_counts():
    """
    `nice` counts between sessions: for daemons that start beside perftest. With autogroups, the default of
    the kernel, each session has the same share of the CPU, and a start takes five times as long.
    """
    setting = "/proc/sys/kernel/sched_autogroup_enabled"
    each(lambda name: channel.run(name, ["sh", "-c", f"echo 0 >{setting}"]))
    try:
        yield
    finally:
        each(lambda name: channel.run(name, ["sh", "-c", f"echo 1 >{setting}"]))


def rxe_counters(name, device=perftest.DEVICE):
    """{counter: value} of a guest's RDMA device."""
    text = channel.read(name, ["grep", "-r", "", HW_COUNTERS.format(device)])
    return {os.path.basename(path): int(value) for path, value in
            (line.split(":") for line in text.splitlines())}


def qdisc_drops():
    """{guest: packets that its qdisc dropped}, which a busy host may cause (CoDel)."""
    return {name: sum(qdisc.get("drops", 0) for qdisc in json.loads(
        channel.read(name, ["tc", "-s", "-j", "qdisc", "show", "dev", "eth0"])))
        for name in GUESTS}


def wait_still(device=perftest.DEVICE):
    """Waits until no guest's device sends or receives; returns {guest: counters}."""
    deadline, before, agreed = time.monotonic() + STILL_SECONDS, None, 0
    while agreed < STILL_READS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"RoCEv2 still flows {STILL_SECONDS} s after the test's end")
        now = dict(zip(GUESTS, each(lambda name: rxe_counters(name, device))))
        agreed = agreed + 1 if now == before else 0
        before = now
        time.sleep(STILL_GAP_SECONDS)
    return before


def escapement(name, *verb):
    """`escapement -j VERB...` in a guest, as Python objects."""
    return json.loads(channel.read(name, ["escapement", "-j", *verb]))


def interface(name):
    """The guest's one interface as `status` shows it."""
    return escapement(name, "status")["interfaces"][0]


def network(name):
    """What the kernel shows of a guest's interface, without what only counts."""
    shown = ["tc qdisc show dev eth0", "tc filter show dev eth0 ingress",
             "tc filter show dev eth0 egress", "ip -d -o link show dev eth0", "ethtool -k eth0",
             "bpftool net show dev eth0"]
    return channel.read(name, ["sh", "-c", " && ".join(f"echo '# {c}' && {c}" for c in shown)])


def changed(before, after):
    """The lines that differ, for a diagnosis."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after",
                                 lineterm="", n=1)
    return "\n".join(lines)


def queue_pairs(name):
    """{(direction, src, dst, dest_qpn): entry} as the daemon in a guest shows them."""
    return {(qp["direction"], qp["src"], qp["dst"], qp["dest_qpn"]): qp
            for qp in escapement(name, "qp")["qps"]}


def difference(after, before, direction):
    """{Key: {field: growth}} of one direction's entries that moved."""
    grown = {}
    for key, entry in after.items():
        if key[0] != direction:
            continue
        old = before.get(key, {})
        if old.get("first_local_ns") != entry["first_local_ns"]:
            old = {}  # retired, and begun anew
        growth = {field: entry[field] - old.get(field, 0) for field in GROWING if field in entry}
        if growth["packets"]:
            growth["sizes"] = entry.get("message_bytes", {})
            grown[rocev2.Key(*key[1:])] = growth
    return grown


class Observation:
    """The counts of one stretch of traffic by rxe, the capture and escapement."""

    def __init__(self):
        self.result = None  # perftest's
        self.capture = None
        self.wire = {}  # {Key: Flow}
        self.rxe = {}  # {guest: {counter: growth}}
        self.tx = {}  # {guest: {Key: {field: growth}}}
        self.rx = {}


@contextlib.contextmanager
def observing(folder, label):
    """Everything between a still fabric and the next still fabric."""
    seen = Observation()
    path = os.path.join(folder, f"{label}.pcap")
    rxe = wait_still()
    qps = dict(zip(GUESTS, each(queue_pairs)))
    capture.start(CLIENT, path)
    try:
        yield seen
        rxe_after = wait_still()
        seen.capture = capture.stop(CLIENT)
    finally:
        capture.abandon(CLIENT)
    seen.wire = rocev2.count(path)
    os.unlink(path)
    for name, after in zip(GUESTS, each(queue_pairs)):
        seen.rxe[name] = {key: rxe_after[name][key] - value for key, value in rxe[name].items()}
        seen.tx[name] = difference(after, qps[name], "tx")
        seen.rx[name] = difference(after, qps[name], "rx")


def address_of(name, version):
    return str(perftest.addresses(name)[version])


def wire_counts(seen, source, version):
    """{Key: Count} of what the capture saw from one guest."""
    address = address_of(source, version)
    return {key: Count(flow.packets, flow.bytes) for key, flow in seen.wire.items()
            if key.src == address}


def our_counts(entries):
    return {key: Count(entry["packets"], entry["bytes"]) for key, entry in entries.items()}


def total(entries, field):
    return sum(entry.get(field, 0) for entry in entries.values())


def other(name):
    return SERVER if name == CLIENT else CLIENT


def format_counts(counts):
    """One line a queue pair, for diagnoses."""
    return "\n".join(f"{key.src} -> {key.dst} qpn {key.dest_qpn}: {count.packets} packets "
                     f"{count.bytes} bytes" for key, count in sorted(counts.items())) or "nothing"


def check_exact(tap, label, seen, version):
    """All counts agree, queue pair by queue pair, in both directions. Zero difference."""
    tap.check(seen.capture["dropped"] == 0 and seen.capture["packets"] == seen.capture["received"],
              f"{label}: the capture lost nothing", seen.capture)
    for source in GUESTS:
        wire = wire_counts(seen, source, version)
        sent, got = our_counts(seen.tx[source]), our_counts(seen.rx[other(source)])
        tap.check(sent == wire, f"{label}: tc egress of {source} = the capture, "
                  f"{sum(count.packets for count in wire.values())} packets",
                  f"tc egress\n{format_counts(sent)}\ncapture\n{format_counts(wire)}")
        tap.check(got == wire, f"{label}: XDP of {other(source)} = the capture",
                  f"XDP\n{format_counts(got)}\ncapture\n{format_counts(wire)}")
        check_sums(tap, label, seen, source)


def check_sums(tap, label, seen, name):
    rxe = seen.rxe[name]["sent_pkts"], seen.rxe[name]["rcvd_pkts"]
    ours = total(seen.tx[name], "packets"), total(seen.rx[name], "packets")
    tap.check(ours == rxe, f"{label}: {name}'s sums = rxe's own counters",
              f"sent, received: escapement {ours}, rxe {rxe}")
