# SPDX-License-Identifier: BSD-2-Clause
"""Captures of RoCEv2 on both links of a host, plain or encapsulated in UDP: progress over time, and its gaps."""
import os
import signal
import subprocess
import time

import rocev2

FILTER = "udp portrange 4791-4793"
SNAP_BYTES = 160
BIN_SECONDS = 0.1


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
        packets = list(rocev2.packets(self.path))
        os.unlink(self.path)
        return packets


def data_packets(path, source):
    """The data packets from one address in a capture so far."""
    return sum(packet.source == source and packet.is_request for packet in rocev2.packets(path))


def progress(packets, source):
    """[(time, bytes)] of new data from one address: each PSN of a queue pair once."""
    return [(packet.time, packet.ip_bytes) for packet in rocev2.progress(packets, source)]


def resumed(packets, times, source, cut_at):
    """Seconds from @cut_at until new data of one address is encapsulated in UDP; infinite: never. Unlike a gap this
    does not depend on other delays of the machine."""
    wrapped = {packet.time for packet in packets if packet.wrapped and packet.source == source}
    return next((at - cut_at for at, _ in times if at > cut_at and at in wrapped), float("inf"))


def longest_gap(times, begin, end):
    """(seconds, begin) of the longest time without progress between @begin and @end."""
    inside = [begin] + [at for at, _ in times if begin < at < end]
    gaps = [(b - a, a) for a, b in zip(inside, inside[1:] + [end])]
    return max(gaps)


def rates(times, begin, end):
    """Bits per second, one value for each BIN_SECONDS."""
    bins = [0] * max(1, int((end - begin) / BIN_SECONDS))
    for at, size in times:
        number = int((at - begin) / BIN_SECONDS)
        if 0 <= number < len(bins):
            bins[number] += size * 8 / BIN_SECONDS
    return bins


def mean(times, begin, end):
    return sum(size for at, size in times if begin <= at < end) * 8 / max(end - begin, 1e-9)
