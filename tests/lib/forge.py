# SPDX-License-Identifier: BSD-2-Clause
"""Forged packets of each kind, and for each kind its twin: a packet of the same length that takes the same way through
the kernel and is nothing of ours."""
import socket
import struct
import time

ROCE, DATA, PROBE = 4791, 4792, 4793
DISCARD = 9
MASK = (1 << 64) - 1


def member_id(name):
    """As graph_member_id(): FNV-1a, and the finalizer of splitmix64."""
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 & MASK
    value = value + 0x9e3779b97f4a7c15 & MASK
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ value >> 27) * 0x94d049bb133111eb & MASK
    return value ^ value >> 31


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def ipv4(source, target, protocol, payload):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def udp(source, target, sport, dport, payload):
    return ipv4(source, target, 17, struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload)


def tcp(source, target, sport, dport, sequence, acked, flags, options=b"", data=b""):
    head = struct.pack(">HHIIBBHHH", sport, dport, sequence, acked, (20 + len(options)) // 4 << 4, flags, 65535, 0, 0)
    segment = head + options + data
    pseudo = socket.inet_aton(source) + socket.inet_aton(target) + struct.pack(">HH", 6, len(segment))
    sum_ = checksum(pseudo + segment + bytes(len(segment) % 2))
    return ipv4(source, target, 6, segment[:16] + struct.pack(">H", sum_) + segment[18:])


def bth(opcode, qpn, psn):
    return struct.pack(">BBHII", opcode, 0x40, 0xffff, qpn, psn)


class Forge:
    """Packets to the address @target of member @names[1] as if they were of @source, member @names[0]; each is another
    one. @port: TCP connections are accepted there."""

    def __init__(self, names, source, target, port, draw):
        self.source, self.target, self.port, self.draw = source, target, port, draw
        self.ids = struct.pack(">QQ", *map(member_id, names))

    def sport(self):
        return self.draw.randrange(49152, 65536)

    def stranger(self):
        return f"10.77.{self.draw.randrange(256)}.{self.draw.randrange(1, 255)}"

    def probe(self, opcode, bytes_):
        """Right but for the tag: format, sender, target."""
        more = 2 if opcode == 0xe7 else 1
        head = b"EsCp" + (bytes((3, 0)) + b"\0\0" if more == 2 else bytes((3, 0, 0, 3))) + self.ids
        rest = self.draw.randbytes(bytes_ - len(head))
        return udp(self.source, self.target, self.sport(), ROCE,
                   bth(opcode, 0, self.draw.getrandbits(24)) + head + rest + bytes(4))

    def report(self):
        """That its NIC is dead."""
        mapped = bytes(10) + b"\xff\xff" + socket.inet_aton(self.source)
        return udp(self.source, self.target, self.sport(), PROBE,
                   b"ESNP" + bytes((2, 1, 1, 2)) + self.draw.randbytes(16) + mapped +
                   struct.pack(">Q", time.time_ns()) + self.draw.randbytes(8))

    def roce(self, source, payload=64):
        return udp(source, self.target, self.sport(), ROCE,
                   bth(0x04, self.draw.getrandbits(24), self.draw.getrandbits(24)) +
                   self.draw.randbytes(payload) + bytes(4))

    def data(self):
        number = time.time_ns() >> 30 & 0xffffffff
        return udp(self.source, self.target, self.sport(), DATA,
                   struct.pack(">BBBBI", 2, 0, 2, 0, number) + self.draw.randbytes(8) + self.roce(self.source))

    def quote(self):
        """A switch has dropped a path probe of the target, it says."""
        return self.error(11, 0)

    def error(self, kind, code):
        probe = udp(self.target, self.source, self.sport(), ROCE,
                    bth(0xe9, 0, 0) + b"EsCp" + bytes((3, 0, 0xff, 3)) + self.ids + self.draw.randbytes(176) + bytes(4))
        body = struct.pack(">BBHI", kind, code, 0, 0) + probe
        body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
        return ipv4(f"10.9.{self.draw.randrange(256)}.1", self.target, 1, body)

    def syn(self, kind=254):
        more = self.draw.randbytes(self.draw.randrange(1, 5) * 4)
        options = bytes((kind, len(more) + 4)) + b"\xe5\xca" + more
        return tcp(self.stranger(), self.target, self.sport(), self.port, self.draw.getrandbits(32), 0, 2, options)

    def other_udp(self, like):
        return udp(self.source, self.target, self.sport(), DISCARD, self.draw.randbytes(len(like) - 28))

    def kinds(self):
        """[(name, what counts it, maker, maker of twins)]"""
        makers = [
            ("probes", "probe", lambda: self.probe(0xe5, 176)),
            ("path reports", "probe", lambda: self.probe(0xea, 200)),
            ("receipts", "probe", lambda: self.probe(0xe7, 72)),
            ("reports of a dead NIC", "nic", self.report),
            ("encapsulated data", "nic", self.data),
            ("RoCE of random queue pairs", "roce", lambda: self.roce(self.stranger())),
        ]
        twins = [(name, counter, make, lambda make=make: self.other_udp(make())) for name, counter, make in makers]
        return twins + [
            ("ICMP quotes", "quotes", self.quote, lambda: self.error(3, 1)),
            ("TCP options", "tcp", self.syn, lambda: self.syn(253)),
        ]
