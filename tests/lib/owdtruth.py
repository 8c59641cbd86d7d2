# SPDX-License-Identifier: BSD-2-Clause
"""
The true one-way delays of a lab's packets: all hosts run on one kernel, so that one clock timestamps every packet at
both of its ends (tests/tools/witness), independently of the hosts' clocks.

The witness runs beside the programs: before tc egress and after it, in the leaf before the receiving host's port,
and after native XDP (generic XDP: before it). The timestamps of the programs lie between. So a delay is between `low`
(after tc egress to the leaf's port) and `high` (before tc egress to after XDP), and `delay`, from after to after, has
an error of a few hundred nanoseconds: the time of the programs and the stack after the timestamp in XDP less that
after the timestamp in tc egress.
"""
import collections
import ipaddress
import json
import math
import os
import signal
import struct
import subprocess

import labtest
from tap import Skip

WITNESS = os.path.join(labtest.BUILD, "tests", "tools", "witness")
UNAVAILABLE = 77
LEAVING, QUEUED, ARRIVED, RECEIVED, CONSUMED = range(5)
RECEIPT = 0xe7
RECORD = struct.Struct("<Q16s16sIIHHBBBBIIQIIII")
PSN_MASK = 0xffffff

Record = collections.namedtuple("Record", "ktime_ns source destination qpn psn sport ip_bytes "
                                "opcode host place tos about_qpn about_psn rx_fabric_ns "
                                "rx_bound_ns stack_ns flags reserved")
# One packet, independent of the hosts' indices.
Key = collections.namedtuple("Key", "source destination qpn psn")


def records_of(path):
    with open(path, "rb") as file:
        data = file.read()
    return [Record(*fields) for fields in RECORD.iter_unpack(data)]


class Delay(collections.namedtuple("Delay", "low delay high")):
    """Nanoseconds; see above."""


class Packet:
    """All timestamps of one PSN of one queue pair."""
    __slots__ = ("leaving", "queued", "ported", "arrived", "received", "cloned", "opcode")

    def __init__(self):
        self.leaving, self.queued, self.ported, self.arrived, self.received, self.cloned = [], [], [], [], [], []
        self.opcode = 0

    def complete(self):
        """The kernel skips tracing programs while that CPU reads or writes a map for a process: then the timestamps of
        the tc programs are used, of which the next is that of a receipt's clone. True: all are known."""
        if len(self.queued) < len(self.leaving):
            self.queued = self.leaving
        if not self.arrived and self.cloned:
            self.arrived = self.cloned
        return len(self.arrived) >= len(self.ported)

    def stack_ns(self):
        """Of each time it was received: from behind XDP to the stack, which tc ingress is part of."""
        return [received - arrived for arrived, received in zip(self.arrived, self.received)]

    def first(self):
        """Delay of the first transmission, if it is known to have been received, else None."""
        if not (self.leaving and self.queued and self.ported and self.arrived) or \
                (len(self.leaving) > 1 and self.arrived[0] > self.leaving[1]):
            return None
        return Delay(self.ported[0] - self.queued[0], self.arrived[0] - self.queued[0],
                     self.arrived[0] - self.leaving[0])


class Truth:
    """The records of the witness. @hosts: their addresses as bytes, in the sequence of its arguments; the leaves'
    ports to them follow in the same sequence."""

    def __init__(self, records, hosts, arrival=ARRIVED):
        self.packets = collections.defaultdict(Packet)
        self.receipts = []  # at the host that sent them
        self.receipts_arrived = []
        self.receipts_ported = []  # at the leaf's port to their receiver
        self.receipts_consumed = []  # by the receiver's XDP program
        self.records = records
        for record in records:
            own = hosts[record.host % len(hosts)]
            if record.opcode == RECEIPT:
                if record.host < len(hosts):
                    self.take_receipt(record, own, arrival)
                elif record.place == LEAVING and record.destination in own:
                    self.receipts_ported.append(record)
                continue
            packet = self.packets[Key(record.source, record.destination, record.qpn, record.psn)]
            packet.opcode = record.opcode
            if record.host >= len(hosts):
                if record.place == LEAVING and record.destination in own:
                    packet.ported.append(record.ktime_ns)
            # The clone from which a receipt is made has the addresses of the data.
            elif record.place == LEAVING and record.destination in own:
                packet.cloned.append(record.ktime_ns)
            elif record.place == LEAVING and record.source in own:
                packet.leaving.append(record.ktime_ns)
            elif record.place == QUEUED and record.source in own:
                packet.queued.append(record.ktime_ns)
            elif record.place in (arrival, RECEIVED) and record.destination in own:
                if record.place == arrival:
                    packet.arrived.append(record.ktime_ns)
                if record.place == RECEIVED:
                    packet.received.append(record.ktime_ns)
        # Packets that were received, without a timestamp.
        self.missed = sum(not packet.complete() for packet in self.packets.values())

    def take_receipt(self, record, own, arrival):
        if record.place == LEAVING and record.source in own:
            self.receipts.append(record)
        elif record.place == CONSUMED and record.destination in own:
            self.receipts_consumed.append(record)
        elif record.place == arrival and record.destination in own:
            self.receipts_arrived.append(record)

    def of_qp(self, qpn):
        """{psn: Packet} of the data to this queue pair."""
        return {key.psn: packet for key, packet in self.packets.items() if key.qpn == qpn}

    def receipted(self, qpn):
        """PSNs of this queue pair with a receipt."""
        return [receipt.about_psn for receipt in self.receipts if receipt.about_qpn == qpn]

    def offsets(self):
        """Nanoseconds from before tc egress to after it: (median, 99th percentile) of all packets."""
        spent = sorted(p.queued[0] - p.leaving[0] for p in self.packets.values()
                       if len(p.queued) == 1 and len(p.leaving) == 1)
        return quantile(spent, 0.5), quantile(spent, 0.99)


def quantile(ordered, share):
    """The quantile @share."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def is_quantile(delays, shown, share, missing, unseen, bound, beside):
    """Whether @shown can be the quantile of these true delays (all but @missing of them, and @unseen more): within
    @bound and @beside of `delay`, or within @bound of the range `low` to `high`."""
    lows, middles, highs = (sorted(part) for part in zip(*delays))
    rank = max(0, math.ceil(share * (len(delays) + unseen - missing)) - 1)
    low, high = shown if isinstance(shown, tuple) else (shown, shown)
    first, last = max(0, rank - unseen), rank + missing
    if first < len(delays) and (middles[first] - bound - beside > high and lows[first] - bound > high):
        return False
    if last >= len(delays):  # the largest may be one of the unseen
        return unseen > 0
    return low <= middles[last] + bound + beside or low <= highs[last] + bound


class Witness:
    """with Witness(lab, ["h1", "h2"]) as witness: ...; then witness.truth()"""

    def __init__(self, lab, names):
        self.lab, self.names = lab, names
        self.path = os.path.join("/run/escapement-lab", lab.name, "witness")
        self.process = self.counts = None

    def __enter__(self):
        words = [f"{self.lab.name}-{name}:eth1" for name in self.names]
        words += [f"{self.lab.name}-{self.lab.host(name)['leaf']}:{name}" for name in self.names]
        self.process = subprocess.Popen([WITNESS, WITNESS + ".bpf.o", self.path, *words],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            errors = self.process.communicate()[1].strip().splitlines()
            if self.process.returncode == UNAVAILABLE:
                raise Skip(errors[-1])
            raise RuntimeError(f"witness: exit {self.process.returncode}: {errors}")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        out, error = self.process.communicate(timeout=30)
        if self.process.returncode:
            raise RuntimeError(f"witness: exit {self.process.returncode}: {error}")
        self.counts = json.loads(out)

    def truth(self, arrival=ARRIVED):
        if self.counts["lost"]:
            raise RuntimeError(f"the witness lost records: {self.counts}")
        hosts = [addresses_of(self.lab.host(name)) for name in self.names]
        return Truth(records_of(self.path), hosts, arrival)


def addresses_of(host):
    four = ipaddress.ip_address(host["address"]).packed
    return {bytes(10) + b"\xff\xff" + four, ipaddress.ip_address(host["address6"]).packed}
