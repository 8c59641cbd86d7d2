# SPDX-License-Identifier: BSD-2-Clause
"""The file that synchronizes roceflow's flows of a collective; see roceflow/board.h."""
import struct
import time

MAGIC, FLOWS_MAX, ROUNDS_MAX = 0x0e5cb0a2d, 256, 1024
START = 32
END = START + 8 * ROUNDS_MAX
DONE = END + 8 * ROUNDS_MAX
BYTES = DONE + 2 * 8 * FLOWS_MAX


class Board:
    """One run: number of flows, steps in a round, pause after each round."""

    def __init__(self, path, flows, steps, rest_ns):
        self.path, self.flows = path, flows
        with open(path, "wb") as page:
            page.write(struct.pack("<4Q", MAGIC, flows, steps, rest_ns) + bytes(BYTES - START))

    def start(self, after_s):
        """The first round begins @after_s seconds from now."""
        with open(self.path, "r+b", buffering=0) as page:
            page.seek(START)
            page.write(struct.pack("<Q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                                   + int(after_s * 1e9)))

    def read(self, offset, count):
        with open(self.path, "rb") as page:
            page.seek(offset)
            return struct.unpack(f"<{count}Q", page.read(8 * count))

    def done(self):
        """Messages of each flow that were received."""
        return list(self.read(DONE, self.flows))

    def rounds(self, count):
        """[(start, end)] of the first @count rounds, ns; 0: not yet."""
        return list(zip(self.read(START, count), self.read(END, count)))
