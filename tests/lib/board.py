# SPDX-License-Identifier: BSD-2-Clause
"""The file by which roceflow's flows of a collective wait for each other, as roceflow/board.h has it."""
import struct
import time

MAGIC, FLOWS_MAX, ROUNDS_MAX = 0x0e5cb0a2d, 256, 1024
START = 32
END = START + 8 * ROUNDS_MAX
DONE = END + 8 * ROUNDS_MAX
BYTES = DONE + 2 * 8 * FLOWS_MAX


class Board:
    """One run: so many flows, steps in a round, a rest after each."""

    def __init__(self, path, flows, steps, rest_ns):
        self.path, self.flows = path, flows
        with open(path, "wb") as page:
            page.write(struct.pack("<4Q", MAGIC, flows, steps, rest_ns) + bytes(BYTES - START))

    def start(self, after_s):
        """The first round begins, so many seconds from now."""
        with open(self.path, "r+b", buffering=0) as page:
            page.seek(START)
            page.write(struct.pack("<Q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                                   + int(after_s * 1e9)))

    def words(self, offset, count):
        with open(self.path, "rb") as page:
            page.seek(offset)
            return struct.unpack(f"<{count}Q", page.read(8 * count))

    def done(self):
        """Messages of each flow that came."""
        return list(self.words(DONE, self.flows))

    def rounds(self, count):
        """[(start, end)] of so many rounds, ns; 0: not yet."""
        return list(zip(self.words(START, count), self.words(END, count)))
