# SPDX-License-Identifier: BSD-2-Clause
"""What a host's two links saw of RoCEv2, plain or in UDP: progress over time, and its gaps."""
import collections
import os
import signal
import struct
import subprocess
import time

FILTER = "udp portrange 4791-4793"
SNAP_BYTES = 160
PSN_HALF = 1 << 23
BIN_SECONDS = 0.1
READ_REQUEST = 0x0c  # opcodes of RC from SEND to WRITE are below this

Packet = collections.namedtuple("Packet", "at src wrapped sport opcode qpn psn bytes")


class Tap:
    """tcpdump on the leaf's end of a link."""

    def __init__(self, netns, device, path):
        self.path = path
        argv = ["nsenter", f"--net=/run/netns/{netns}", "--", "tcpdump", "-i", device, "-n", "-Z",
                "root", "-s", str(SNAP_BYTES), "-B", "65536", "-w", path, "--immediate-mode", FILTER]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        while "listening on" not in (line := self.process.stderr.readline()):
            if not line:
                raise RuntimeError(f"tcpdump does not start on {device}")

    def size(self):
        """Bytes captured so far."""
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0

    def stop(self):
        time.sleep(0.3)
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        packets = list(read(self.path))
        os.unlink(self.path)
        return packets


def data_packets(path, source):
    """How many packets of data from one address a capture that goes on has by now."""
    return sum(packet.src == source and packet.opcode < READ_REQUEST for packet in read(path))


def roce(frame, offset):
    """(source address, source port, opcode, QPN, PSN, IP bytes, was in UDP) of the IP packet at offset."""
    six = frame[offset] >> 4 == 6
    header = 40 if six else 20
    source = frame[offset + 8:offset + 24] if six else frame[offset + 12:offset + 16]
    sport, dport = struct.unpack_from("!HH", frame, offset + header)
    if dport != 4791:
        found = roce(frame, offset + header + 8)
        return found and found[:-1] + (True,)
    bth = offset + header + 8
    if len(frame) < bth + 12:
        return None
    size = struct.unpack_from("!H", frame, offset + (4 if six else 2))[0] + (40 if six else 0)
    return (source, sport, frame[bth], int.from_bytes(frame[bth + 5:bth + 8], "big"),
            int.from_bytes(frame[bth + 9:bth + 12], "big"), size, False)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    while at + 16 <= len(data):
        seconds, micros, kept, _ = struct.unpack_from("<IIII", data, at)
        if at + 16 + kept > len(data):
            return  # under way
        frame, at = data[at + 16:at + 16 + kept], at + 16 + kept
        found = len(frame) > 54 and roce(frame, 14)
        if found:
            source, sport, opcode, qpn, psn, size, wrapped = found
            yield Packet(seconds + micros / 1e6, source, wrapped, sport, opcode, qpn, psn, size)


def progress(packets, source):
    """[(time, bytes)] of the data from one address that was new: no PSN of a queue pair twice."""
    newest, found = {}, []
    for packet in sorted(packets, key=lambda packet: packet.at):
        if packet.src != source or packet.opcode >= READ_REQUEST:
            continue
        before = newest.get(packet.qpn)
        if before is not None and (packet.psn - before) % (2 * PSN_HALF) not in range(1, PSN_HALF):
            continue
        newest[packet.qpn] = packet.psn
        found.append((packet.at, packet.bytes))
    return found


def resumed(packets, moments, source, cut_at):
    """Seconds from a moment until new data of one address came in UDP; endless: it never did.
    A gap may be of a busy machine, this is of the failover alone."""
    wrapped = {packet.at for packet in packets if packet.wrapped and packet.src == source}
    return next((at - cut_at for at, _ in moments if at > cut_at and at in wrapped), float("inf"))


def longest_gap(moments, begin, end):
    """(seconds, when it began) of the longest time without progress between two moments."""
    inside = [begin] + [at for at, _ in moments if begin < at < end]
    gaps = [(b - a, a) for a, b in zip(inside, inside[1:] + [end])]
    return max(gaps)


def rates(moments, begin, end):
    """Bits per second, one value for each BIN_SECONDS."""
    bins = [0] * max(1, int((end - begin) / BIN_SECONDS))
    for at, size in moments:
        number = int((at - begin) / BIN_SECONDS)
        if 0 <= number < len(bins):
            bins[number] += size * 8 / BIN_SECONDS
    return bins


def mean(moments, begin, end):
    return sum(size for at, size in moments if begin <= at < end) * 8 / max(end - begin, 1e-9)
