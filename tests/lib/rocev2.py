# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 packets in pcap files: headers, ICRCs, and counts for each queue pair.

Written from the InfiniBand Architecture Specification (chapter 9, annex A17), with struct and zlib,
and sharing nothing with the kernel programs that it judges: neither code nor tables.
"""
import collections
import ipaddress
import struct
import zlib

ROCE_PORT = 4791
ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
ETHERTYPES_VLAN = (0x8100, 0x88A8)
UDP = 17
DLT_EN10MB = 1
PCAP_UNITS = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}
UDP_BYTES, BTH_BYTES, ICRC_BYTES = 8, 12, 4
SHIM_BYTES = 16  # in front of a packet in UDP
ACKNOWLEDGE, CNP = 0x11, 0x81
MANUFACTURER = 0xC0  # from here on opcodes belong to no queue pair: probes
READ_REQUEST, READ_RESPONSES = 0x0C, (0x0D, 0x0E, 0x0F, 0x10)
NAK, RNR_NAK = 0x60, 0x20
PSN_HALF, PSN_MASK = 0x800000, 0xFFFFFF

# Low five bits of the opcode: the last packet of a message, the first, and their extension headers' bytes.
END_OPCODES = {0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B, 0x0F, 0x10, 0x16, 0x17}
START_OPCODES = {0x00, 0x04, 0x05, 0x06, 0x0A, 0x0B, 0x0D, 0x10, 0x17}
EXTENSION_BYTES = {0x03: 4, 0x05: 4, 0x06: 16, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16, 0x0D: 4,
                   0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4}
UD_EXTENSION_BYTES = {0x04: 8, 0x05: 12}


def frames(path):
    """(seconds, frame) of each record of a little-endian Ethernet pcap that may still be written."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 24:
        return
    magic, linktype = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, 20)[0]
    if magic not in PCAP_UNITS or linktype != DLT_EN10MB:
        raise ValueError(f"{path}: not a little-endian Ethernet pcap")
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, captured = struct.unpack_from("<III", data, at)
        at += 16 + captured
        if at > len(data):
            return
        yield seconds + fraction * PCAP_UNITS[magic], data[at - captured:at]


def icrc(ip):
    """The ICRC that the IP packet @ip (with its last four bytes) must carry: CRC-32 over eight bytes of ones and
    the packet with the fields that a switch may change read as ones (annex A17.3.4)."""
    masked = bytearray(ip)
    if masked[0] >> 4 == 4:
        head = (masked[0] & 15) * 4
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
    else:
        head = 40
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
    masked[head + 6] = masked[head + 7] = 0xff
    masked[head + 8 + 4] = 0xff
    return zlib.crc32(bytes(masked[:-4]), zlib.crc32(b"\xff" * 8))


class Packet(collections.namedtuple("Packet", "time source destination sport opcode flags qpn psn ack_request syndrome "
                                              "tos ip_bytes udp_bytes wrapped ip")):
    """@source, @destination: addresses as bytes; @flags: of the BTH; @syndrome: of an AETH, else None;
    @ip: the IP packet as far as it was captured; @wrapped: it came inside of UDP."""
    __slots__ = ()

    @property
    def icrc_good(self):
        """None of a packet that was not captured whole."""
        if len(self.ip) < self.ip_bytes:
            return None
        return icrc(self.ip) == struct.unpack("<I", self.ip[-4:])[0]

    @property
    def is_request(self):
        return self.opcode < MANUFACTURER and self.opcode != CNP and \
            self.opcode & 0x1F != ACKNOWLEDGE and self.opcode & 0x1F not in READ_RESPONSES


def ip_fields(ip):
    """(source, destination, tos, IP bytes, header's bytes) of UDP over IP, or None."""
    version = ip[0] >> 4 if len(ip) > 40 else 0
    if version == 4 and ip[9] == UDP:
        if (ip[6] << 8 | ip[7]) & 0x3FFF:
            raise ValueError("a fragment of RoCEv2")
        return ip[12:16], ip[16:20], ip[1], ip[2] << 8 | ip[3], 4 * (ip[0] & 15)
    if version == 6 and ip[6] == UDP:
        return ip[8:24], ip[24:40], (ip[0] << 4 | ip[1] >> 4) & 0xFF, 40 + (ip[4] << 8 | ip[5]), 40
    return None


def of_ip(time, ip, wrapped=False):
    """The Packet in an IP packet, plain or inside of UDP; None: no RoCEv2."""
    found = ip_fields(ip)
    if not found:
        return None
    source, destination, tos, total, head = found
    ip = ip[:total]
    if len(ip) < head + UDP_BYTES + BTH_BYTES:
        return None
    sport, dport, udp_bytes = struct.unpack_from(">HHH", ip, head)
    if dport != ROCE_PORT:
        return None if wrapped else of_ip(time, ip[head + UDP_BYTES + SHIM_BYTES:], True)
    bth = head + UDP_BYTES
    qpn, psn = struct.unpack_from(">II", ip, bth + 4)
    aeth = ip[bth + BTH_BYTES:bth + BTH_BYTES + 1] if ip[bth] & 0x1F == ACKNOWLEDGE else b""
    return Packet(time, source, destination, sport, ip[bth], ip[bth + 1], qpn & 0xFFFFFF, psn & PSN_MASK, psn >> 31,
                  aeth[0] if aeth else None, tos, total, udp_bytes, wrapped, ip)


def decode(time, frame):
    """The Packet in an Ethernet frame; None: no RoCEv2."""
    at = 12
    while (ethertype := frame[at] << 8 | frame[at + 1]) in ETHERTYPES_VLAN:
        at += 4
    if ethertype not in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return None
    return of_ip(time, frame[at + 2:])


def packets(path):
    for time, frame in frames(path):
        packet = decode(time, frame)
        if packet:
            yield packet


def progress(seen, source):
    """Those of the packets @seen, in the order of time, that were requests of @source (bytes) with a PSN that
    their queue pair had not had."""
    newest = {}
    for packet in sorted(seen, key=lambda packet: packet.time):
        if packet.source != source or not packet.is_request:
            continue
        ahead = (packet.psn - newest.get(packet.qpn, packet.psn - 1)) & PSN_MASK
        if 0 < ahead < PSN_HALF:
            newest[packet.qpn] = packet.psn
            yield packet


Key = collections.namedtuple("Key", "src dst dest_qpn")


class Counts:
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

    def add(self, packet):
        self.packets += 1
        self.bytes += packet.ip_bytes
        self.sports.add(packet.sport)
        self.ce += packet.tos & 3 == 3
        kind = packet.opcode & 0x1F
        if packet.opcode == CNP:
            self.cnps += 1
        elif kind == ACKNOWLEDGE:
            self.naks += packet.syndrome & 0x60 == NAK
            self.rnr_naks += packet.syndrome & 0x60 == RNR_NAK
        elif kind == READ_REQUEST:
            self.requests.forget()
        else:
            extension = (UD_EXTENSION_BYTES if packet.opcode >> 5 == 3 else EXTENSION_BYTES).get(kind, 0)
            payload = packet.udp_bytes - UDP_BYTES - BTH_BYTES - extension - (packet.flags >> 4 & 3) - ICRC_BYTES
            sequence = self.responses if kind in READ_RESPONSES else self.requests
            sequence.packet(packet.psn, kind in START_OPCODES, kind in END_OPCODES, payload)


class Sequence:
    """In-order PSNs of requests, or of READ responses."""

    def __init__(self, counts):
        self.counts = counts
        self.next_psn = None
        self.gap_open = False
        self.size = 0

    def packet(self, psn, start, end, payload_bytes):
        distance = 0 if self.next_psn is None else (psn - self.next_psn) & PSN_MASK
        if distance >= PSN_HALF:
            self.counts.duplicates += 1
            return
        if distance:
            self.counts.gaps += not self.gap_open
            self.gap_open = True
            return
        self.gap_open = False
        self.next_psn = (psn + 1) & PSN_MASK
        self.size = payload_bytes + (0 if start else self.size)
        if end:
            self.counts.messages += 1
            self.counts.message_bytes += self.size
            self.counts.sizes.add(self.size)

    def forget(self):
        """A READ takes as many PSNs as its response has packets: the next request starts anew."""
        self.next_psn = None


def count(path):
    """{Key: Counts} of all RoCEv2 in a capture."""
    found = collections.defaultdict(Counts)
    for packet in packets(path):
        found[packet.source, packet.destination, packet.qpn].add(packet)
    return {Key(str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst)), qpn): counts
            for (src, dst, qpn), counts in found.items()}
