# SPDX-License-Identifier: BSD-2-Clause
"""An independent RoCEv2 decoder: pcap in, per-queue-pair counts out.

Written from the InfiniBand Architecture Specification (chapter 9, annex A17), and sharing nothing
with the kernel programs that it judges: neither code nor tables.
"""
import collections
import ipaddress
import struct

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
ETHERTYPES_VLAN = (0x8100, 0x88A8)
UDP, ROCEV2_PORT = 17, 4791
DLT_EN10MB = 1
PCAP_MAGIC_US, PCAP_MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
BTH_BYTES, ICRC_BYTES, UDP_BYTES = 12, 4, 8
ACKNOWLEDGE, CNP = 0x11, 0x81
MANUFACTURER = 0xC0  # from here on opcodes are nobody's queue pairs: probes
READ_REQUEST, READ_RESPONSES = 0x0C, (0x0D, 0x0E, 0x0F, 0x10)
NAK, RNR_NAK = 0x60, 0x20
PSN_HALF, PSN_MASK = 0x800000, 0xFFFFFF

# Low five bits of the opcode: the last packet of a message, and its extension headers' bytes.
END_OPCODES = {0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B, 0x0F, 0x10, 0x16, 0x17}
START_OPCODES = {0x00, 0x04, 0x05, 0x06, 0x0A, 0x0B, 0x0D, 0x10, 0x17}
EXTENSION_BYTES = {0x03: 4, 0x05: 4, 0x06: 16, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16, 0x0D: 4,
                   0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4}
UD_EXTENSION_BYTES = {0x04: 8, 0x05: 12}

Key = collections.namedtuple("Key", "src dst dest_qpn")


class Flow:
    """What one sender put on the wire for one queue pair."""

    def __init__(self):
        self.packets = self.bytes = 0
        self.sports = set()
        self.messages = self.message_bytes = 0
        self.sizes = set()
        self.duplicates = self.gaps = 0
        self.naks = self.rnr_naks = self.ce = self.cnps = 0
        self.requests = Sequence(self)
        self.responses = Sequence(self)


class Sequence:
    """In-order PSNs of requests, or of READ responses."""

    def __init__(self, flow):
        self.flow = flow
        self.next_psn = None
        self.gap_open = False
        self.size = 0

    def packet(self, psn, start, end, payload_bytes):
        distance = 0 if self.next_psn is None else (psn - self.next_psn) & PSN_MASK
        if distance >= PSN_HALF:
            self.flow.duplicates += 1
            return
        if distance:
            self.flow.gaps += not self.gap_open
            self.gap_open = True
            return
        self.gap_open = False
        self.next_psn = (psn + 1) & PSN_MASK
        self.size = payload_bytes + (0 if start else self.size)
        if end:
            self.flow.messages += 1
            self.flow.message_bytes += self.size
            self.flow.sizes.add(self.size)

    def forget(self):
        """A READ takes as many PSNs as its answer has packets: the next request says how many."""
        self.next_psn = None


def frames(path):
    """(time in s, captured bytes) of each frame of a little-endian Ethernet pcap."""
    with open(path, "rb") as file:
        data = file.read()
    magic, linktype = struct.unpack_from("<I", data, 0)[0], struct.unpack_from("<I", data, 20)[0]
    if magic not in (PCAP_MAGIC_US, PCAP_MAGIC_NS) or linktype != DLT_EN10MB:
        raise ValueError(f"{path}: not a little-endian Ethernet pcap")
    view, at = memoryview(data), 24
    unit = 1e-9 if magic == PCAP_MAGIC_NS else 1e-6
    while at < len(data):
        seconds, fraction, captured = struct.unpack_from("<III", data, at)
        yield seconds + fraction * unit, view[at + 16:at + 16 + captured]
        at += 16 + captured


def ip_of(frame):
    """(source, destination, tos, IP length, offset of the UDP header), or None: not plain UDP."""
    at = 12
    ethertype = frame[at] << 8 | frame[at + 1]
    while ethertype in ETHERTYPES_VLAN:
        at += 4
        ethertype = frame[at] << 8 | frame[at + 1]
    at += 2
    if ethertype == ETHERTYPE_IPV4 and frame[at + 9] == UDP:
        if (frame[at + 6] << 8 | frame[at + 7]) & 0x3FFF:
            raise ValueError("a fragment of RoCEv2")
        return (bytes(frame[at + 12:at + 16]), bytes(frame[at + 16:at + 20]), frame[at + 1],
                frame[at + 2] << 8 | frame[at + 3], at + 4 * (frame[at] & 15))
    if ethertype == ETHERTYPE_IPV6 and frame[at + 6] == UDP:
        return (bytes(frame[at + 8:at + 24]), bytes(frame[at + 24:at + 40]),
                (frame[at] << 4 | frame[at + 1] >> 4) & 0xFF,
                40 + (frame[at + 4] << 8 | frame[at + 5]), at + 40)
    return None


def decode(path):
    """{Key: Flow} of all RoCEv2 in a capture."""
    flows = {}
    for _, frame in frames(path):
        found = ip_of(frame)
        if not found:
            continue
        src, dst, tos, ip_bytes, udp = found
        sport, dport, udp_bytes = struct.unpack_from(">HHH", frame, udp)
        if dport != ROCEV2_PORT:
            continue
        opcode, flags = frame[udp + 8], frame[udp + 9]
        qpn, psn = struct.unpack_from(">II", frame, udp + 12)
        key = (src, dst, qpn & 0xFFFFFF)
        flow = flows.get(key)
        if flow is None:
            flow = flows[key] = Flow()
        flow.packets += 1
        flow.bytes += ip_bytes
        flow.sports.add(sport)
        flow.ce += tos & 3 == 3
        count_opcode(flow, opcode, flags, psn & PSN_MASK, frame, udp, udp_bytes)
    return {Key(str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst)), qpn): flow
            for (src, dst, qpn), flow in flows.items()}


def count_opcode(flow, opcode, flags, psn, frame, udp, udp_bytes):
    if opcode == CNP:
        flow.cnps += 1
        return
    kind = opcode & 0x1F
    if kind == ACKNOWLEDGE:
        syndrome = frame[udp + UDP_BYTES + BTH_BYTES] & 0x60
        flow.naks += syndrome == NAK
        flow.rnr_naks += syndrome == RNR_NAK
        return
    if kind == READ_REQUEST:
        flow.requests.forget()
        return
    extension = (UD_EXTENSION_BYTES if opcode >> 5 == 3 else EXTENSION_BYTES).get(kind, 0)
    payload = udp_bytes - UDP_BYTES - BTH_BYTES - extension - (flags >> 4 & 3) - ICRC_BYTES
    sequence = flow.responses if kind in READ_RESPONSES else flow.requests
    sequence.packet(psn, kind in START_OPCODES, kind in END_OPCODES, payload)


def progress(path, source):
    """Times in s at which @source's requests went on: a PSN that had not been seen, by queue pair."""
    newest, times = {}, {}
    for when, frame in frames(path):
        found = ip_of(frame)
        if not found or str(ipaddress.ip_address(found[0])) != source:
            continue
        udp = found[4]
        kind = frame[udp + 8] & 0x1F
        if frame[udp + 8] >= MANUFACTURER or frame[udp + 8] == CNP or kind == ACKNOWLEDGE or \
                kind in READ_RESPONSES:
            continue
        qpn, psn = (word & PSN_MASK for word in struct.unpack_from(">II", frame, udp + 12))
        ahead = (psn - newest.get(qpn, psn - 1)) & PSN_MASK
        if 0 < ahead < PSN_HALF:
            newest[qpn] = psn
            times.setdefault(qpn, []).append(when)
    return times
