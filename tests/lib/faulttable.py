# SPDX-License-Identifier: BSD-2-Clause
"""The table of faults, in the same columns by each program that makes some: tests/fault, tests/vm/run. tests/run prints
the rows of all programs as one table; see $fault there."""

ROW = "fault: {:<30}{:>15}{:>12}{:>12}{:>12}  {}"
HEAD = ROW.format("", "packets lost", "fails open", "recovers", "held up", "reported")


def seconds(value):
    return "-" if value is None else f"{value:.1f} s"


def note_head(tap):
    tap.note(HEAD)


def note_row(tap, fault, traffic, times, reported):
    """@traffic: (packets lost, sent); @times: seconds until packets leave unchanged, until all works again, and without
    a heartbeat of the loop; None: it did not happen, or is not known. @reported: kinds of events."""
    tap.note(ROW.format(fault, "{} of {:,}".format(*traffic), *map(seconds, times), ", ".join(reported) or "nothing"))
