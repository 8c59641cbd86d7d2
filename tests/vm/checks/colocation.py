# SPDX-License-Identifier: BSD-2-Clause
"""Two emulated machines share this host's counter: its rate against fabric time is the same in both, and each guest calibrated
its own CLOCK_MONOTONIC."""
import labtest

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

SERIES_S = 60
POINTS = 15  # of each series, at least
# Emulated timestamps are late by microseconds: the counters' rates are compared to this, the clocks differ by more.
RATE_PPB = 1000


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
