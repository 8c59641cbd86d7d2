# SPDX-License-Identifier: BSD-2-Clause
"""Two emulated machines share this host's counter: its rate against fabric time is the same in both, and each guest calibrated
its own CLOCK_MONOTONIC. As both read one counter, it also shows how fabric times of the two differ, with no other clock."""
import statistics
import time

import labtest
from emulation import channel

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

SERIES_S = 60
POINTS = 15  # of each series, at least
# Emulated timestamps are late by microseconds: the counters' rates are compared to this, the clocks differ by more.
RATE_PPB = 1000
SLEW_PPM = 100
SLEWED_S = 40
# One round at that rate, and what emulated timestamps are late by.
SLEW_ERROR_NS = SLEW_PPM * 250 + 50_000
ADJ_FREQUENCY = 2
ADJTIMEX = "import ctypes; t = (ctypes.c_long * 26)({}, 0, {}); print(ctypes.CDLL(None, use_errno=True).adjtimex(t))"


def valid(name):
    return [value for value in bench.escapement(name, "cycles").get("ahead_ns", []) if value is not None]


def series():
    """Cycles a second of both, over some new points: {name: Hz}, and the drift between the local clocks."""
    found = {}
    for name in bench.GUESTS:
        cycles = bench.escapement(name, "cycles")
        points = [(2 * at, ahead) for at, ahead in enumerate(cycles["ahead_ns"]) if ahead is not None][-SERIES_S // 2:]
        slopes = sorted((y - b) / (x - a) for at, (a, b) in enumerate(points) for x, y in points[at + len(points) // 3:])
        found[name] = cycles["reference_hz"] * (1 + slopes[len(slopes) // 2] * 1e-9)
    drifts = [peer["drift_ppb"] for peer in bench.escapement(CLIENT, "clock")["peers"] if "drift_ppb" in peer]
    return found, drifts


def apart_ppb(rates):
    return (rates[CLIENT] / rates[SERVER] - 1) * 1e9


def test_colocation(tap, folder):
    """Counters of one host, clocks of two guests."""
    cleanup.make_fresh(**owd.configuration())
    owd.wait_synced()
    known = labtest.wait_for(lambda: all(len(valid(name)) >= POINTS for name in bench.GUESTS), 150)
    tap.check(known, "colocation: both guests have points", {name: bench.escapement(name, "cycles") for name in bench.GUESTS})
    if not known:
        return
    before, drift = series()
    tap.note(f"counters {apart_ppb(before):+.0f} ppb apart, local clocks {drift}")
    tap.check(abs(apart_ppb(before)) < RATE_PPB, "colocation: two guests of this host have one rate", before)


def slew(name, ppm):
    """What NTP does with CLOCK_MONOTONIC of a guest."""
    channel.read(name, ["python3", "-c", ADJTIMEX.format(ADJ_FREQUENCY, ppm << 16)])


def apart():
    """[how far fabric time of the two guests is apart, in ns beside a constant], by the counter that both read, oldest first."""
    found = {}
    for name in bench.GUESTS:
        cycles = bench.escapement(name, "cycles")
        # The counter's reading in ns of its rate in the first guest, less fabric time.
        found[name] = {cycles["first_fabric_ns"] // cycles["step_ns"] + at: (ahead, cycles["reference_hz"])
                       for at, ahead in enumerate(cycles.get("ahead_ns", [])) if ahead is not None}
    both = sorted(set(found[CLIENT]) & set(found[SERVER]))
    hz = found[CLIENT][both[0]][1] if both else 0
    return [found[CLIENT][at][0] - found[SERVER][at][0] -
            ((at - both[0]) * 2e9 * (found[SERVER][at][1] / hz - 1)) for at in both]


def test_slew(tap, folder):
    """CLOCK_MONOTONIC of one guest is slewed, as NTP does: fabric time follows, and stays that of the other guest."""
    cleanup.make_fresh(**owd.configuration())
    owd.wait_synced()
    if not tap.check(labtest.wait_for(lambda: len(apart()) >= POINTS, 150), "slew: both guests have points", apart()):
        return
    moves = {name: bench.escapement(name, "cycles")["first_fabric_ns"] for name in bench.GUESTS}
    before = apart()
    changes = bench.escapement(SERVER, "clock")["local_rate_changes"]
    slew(SERVER, SLEW_PPM)
    try:
        time.sleep(SLEWED_S)
        after = apart()[len(before) + 2:]
        clock = bench.escapement(SERVER, "clock")
        now = {name: bench.escapement(name, "cycles")["first_fabric_ns"] for name in bench.GUESTS}
    finally:
        slew(SERVER, 0)
    moved = statistics.median(after or [0]) - statistics.median(before[-5:])
    tap.note(f"a guest slewed by {SLEW_PPM} ppm for {SLEWED_S} s: fabric times moved {moved:+.0f} ns apart; "
             f"{clock['state']}, bound {clock.get('bound_ns')} ns")
    tap.check(clock["local_rate_changes"] > changes, "slew: the change of the local clock's rate was seen", clock)
    tap.check(len(after) >= SLEWED_S // 4 and now == moves, "slew: fabric time was not given up", (len(after), now, moves))
    tap.check(abs(moved) < SLEW_ERROR_NS, f"slew: and is that of the other guest, of {SLEWED_S * SLEW_PPM} us that the clock moved",
              (before, after))
