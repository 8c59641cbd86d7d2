# SPDX-License-Identifier: BSD-2-Clause
"""
Reads RoCEv2 packets from a pcap file, with nothing of ours in between: struct
and zlib. The ICRC is CRC-32 over eight bytes of ones and the packet with the
fields that a switch may change read as ones (InfiniBand annex A17.3.4).
"""
import struct
import zlib
from collections import namedtuple

ROCE_PORT = 4791
ACKNOWLEDGE = 0x11
CNP = 0x81

Packet = namedtuple("Packet", "time source destination sport opcode qpn psn ack_request syndrome "
                              "tos ip_bytes icrc_good ip")


def frames(path):
    """(seconds, frame) of every record of a classic pcap file with Ethernet in it."""
    with open(path, "rb") as capture:
        data = capture.read()
    magic, = struct.unpack("<I", data[:4])
    if magic not in (0xa1b2c3d4, 0xa1b23c4d):
        raise ValueError(f"{path} is no little-endian pcap file")
    unit, at = (1e9 if magic == 0xa1b23c4d else 1e6), 24
    while at + 16 <= len(data):
        seconds, part, kept, _ = struct.unpack("<IIII", data[at:at + 16])
        yield seconds + part / unit, data[at + 16:at + 16 + kept]
        at += 16 + kept


def icrc(ip):
    """The ICRC that the IP packet @ip (with its last four bytes) must carry."""
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


def decode(time, frame):
    """A Packet, or None for anything but a whole RoCEv2 packet."""
    kind, = struct.unpack(">H", frame[12:14])
    ip = frame[14:]
    if kind == 0x0800:
        head, total = (ip[0] & 15) * 4, struct.unpack(">H", ip[2:4])[0]
        protocol, tos, source, destination = ip[9], ip[1], ip[12:16], ip[16:20]
    elif kind == 0x86dd:
        head, total = 40, 40 + struct.unpack(">H", ip[4:6])[0]
        protocol, tos = ip[6], struct.unpack(">I", ip[:4])[0] >> 20 & 0xff
        source, destination = ip[8:24], ip[24:40]
    else:
        return None
    ip = ip[:total]
    if protocol != 17 or len(ip) < total or total < head + 24:
        return None
    sport, dport = struct.unpack(">HH", ip[head:head + 4])
    if dport != ROCE_PORT:
        return None
    bth = ip[head + 8:]
    return Packet(time, bytes(source), bytes(destination), sport, bth[0],
                  int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big"),
                  bth[8] >> 7, bth[12] if bth[0] == ACKNOWLEDGE else None, tos, total,
                  icrc(ip) == struct.unpack("<I", ip[-4:])[0], bytes(ip))


def packets(path):
    for time, frame in frames(path):
        packet = decode(time, frame)
        if packet:
            yield packet
