# SPDX-License-Identifier: BSD-2-Clause
"""The cause of the end of a guest, by its console."""
import os
import re

from . import state

# QEMU 7.2 without KVM sometimes gives the kernel wrong flags, and it panics anywhere.
PANIC = re.compile(r"Kernel panic - not syncing")
FIRST_LINE = re.compile(r"BUG:|Oops|general protection|invalid opcode|int3:|double fault"
                         r"|stack segment|kernel BUG at|Kernel panic - not syncing")
# A compiled program is bpf_prog_<16 digits>_<name>; bpf_prog_load and its like are the kernel's.
OUR_PROGRAM = re.compile(r"\bbpf_prog_[0-9a-f]{16}\b|\bbpf_prog_[0-9a-f]{16}_|\besc_")
LINES = 60


def read_console(name):
    path = os.path.join(state.folder(name), "console.log")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def panic_lines(console):
    """The lines of a kernel's panic, from what led to it; empty when there was none."""
    if not PANIC.search(console):
        return []
    lines = [line.rstrip() for line in console.splitlines()]
    first = next(i for i, line in enumerate(lines) if FIRST_LINE.search(line))
    return lines[first:first + LINES]


def is_emulators(console):
    """True for a panic that no BPF program has a part in, ours or another one. A guest that went
    without a panic is not tolerated: its end has another cause."""
    return bool(panic_lines(console)) and not OUR_PROGRAM.search(console)
