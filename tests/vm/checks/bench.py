# SPDX-License-Identifier: BSD-2-Clause
"""The two machines under test, and how their counts are read."""
import collections
import contextlib
import json
import os
import time

from emulation import capture, channel, daemon, perftest, state

from . import roce_pcap

CLIENT, SERVER = "A", "B"
GUESTS = (CLIENT, SERVER)
HW_COUNTERS = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
STILL_READS = 2  # readings in a row that agree: traffic is over
STILL_GAP_SECONDS = 0.15
STILL_SECONDS = 30

Count = collections.namedtuple("Count", "packets bytes")


def rxe_counters(name):
    """{counter: value} of the guest's RDMA device."""
    text = channel.read(name, ["sh", "-c", f"cd {HW_COUNTERS} && grep -H '' *"])
    return {key: int(value) for key, value in
            (line.split(":") for line in text.splitlines())}


def wait_still():
    """Waits until no guest's device sends or receives; returns {guest: counters}."""
    deadline, before, agreed = time.monotonic() + STILL_SECONDS, None, 0
    while agreed < STILL_READS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"RoCEv2 still flows {STILL_SECONDS} s after the test's end")
        now = {name: rxe_counters(name) for name in GUESTS}
        agreed = agreed + 1 if now == before else 0
        before = now
        time.sleep(STILL_GAP_SECONDS)
    return before


def escapement(name, *words, good=True):
    """`escapement -j WORDS` in a guest, as Python objects."""
    argv = ["escapement", "-j", *words]
    if good:
        return json.loads(channel.read(name, argv))
    return channel.run(name, argv)


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
        growth = {field: value - old.get(field, 0) for field, value in entry.items()
                  if isinstance(value, int) and field not in ("dest_qpn", "sport", "local_qpn")}
        if growth["packets"]:
            growth["message_sizes"] = entry.get("message_bytes", {})
            grown[roce_pcap.Key(*key[1:])] = growth
    return grown


class Observation:
    """What each witness saw of one stretch of traffic: rxe, the capture, escapement."""

    def __init__(self):
        self.result = None  # perftest's
        self.capture = None
        self.wire = {}  # {Key: Flow}
        self.rxe = {}  # {guest: {counter: growth}}
        self.tx = {}  # {guest: {Key: {field: growth}}}
        self.rx = {}


@contextlib.contextmanager
def observing(folder, label, with_daemon=True):
    """Everything between a still fabric and the next still fabric."""
    seen = Observation()
    path = os.path.join(folder, f"{label}.pcap")
    rxe = wait_still()
    qps = {name: queue_pairs(name) for name in GUESTS} if with_daemon else {}
    capture.start(CLIENT, path)
    try:
        yield seen
        rxe_after = wait_still()
        seen.capture = capture.stop(CLIENT)
    finally:
        capture.abandon(CLIENT)
    seen.wire = roce_pcap.decode(path)
    os.unlink(path)
    for name in GUESTS:
        seen.rxe[name] = {key: rxe_after[name][key] - value for key, value in rxe[name].items()}
        if with_daemon:
            after = queue_pairs(name)
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


def total(counts):
    return Count(sum(c.packets for c in counts.values()), sum(c.bytes for c in counts.values()))


def restart_daemons(**options):
    """escapementd anew in both guests, with other options for the interface."""
    daemon.start(GUESTS, options)


def guest_share(name):
    return state.guest(name)["share"]
