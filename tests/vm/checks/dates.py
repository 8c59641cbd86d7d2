# SPDX-License-Identifier: BSD-2-Clause
"""The system clock: machines booted in 1970 and 2038, and a clock that is set under traffic, with a rule in force."""
import time

import faulttable
from emulation import channel, machine

from . import bench, cleanup, owd, ruledflow
from .bench import CLIENT, SERVER

BOOT = {CLIENT: "1970-01-01T00:00:30", SERVER: "2038-01-19T03:13:00"}  # 2^31 s are 03:14:07
STEPS = ("2026-11-01 00:00:00", "2038-01-19 03:14:06", "1970-01-02 00:00:00")
MESSAGES = 200
STEP_SECONDS = 3
PLACES = [(CLIENT, "leaf1+leaf2"), (SERVER, "leaf3+leaf4")]
MAX_SKEW_NS = 50_000_000  # between the two readings of two guests' clocks, one after the other


def boot(dates):
    """Both machines started again; their programs and pins are gone."""
    machine.down(bench.GUESTS)
    machine.RTC.update(dates)
    try:
        machine.up(PLACES, cleanup.MTU, lambda text: None)
    finally:
        machine.RTC.clear()


def year(name):
    return int(channel.read(name, ["date", "+%Y"]))


def fabric_against_local(name):
    """Fabric time less CLOCK_MONOTONIC, and the bound."""
    clock = bench.escapement(name, "clock")
    return clock["fabric_ns"] - clock["local_ns"], clock["bound_ns"]


def test_dates(tap, folder):
    """Boot in 1970 and 2038; the clock set back and forth under ib_write_bw with a rule in force."""
    boot(BOOT)
    booted = time.monotonic()
    tap.equal({name: year(name) for name in bench.GUESTS}, {CLIENT: 1970, SERVER: 2038},
              "dates: the machines are booted in 1970 and 2038")
    cleanup.make_fresh(**owd.configuration())
    clocks = owd.wait_synced()
    synced_s = time.monotonic() - booted
    tap.equal({name: clock["state"] for name, clock in clocks.items()}, dict.fromkeys(bench.GUESTS, "synced"),
              "dates: both have fabric time")
    with ruledflow.RuledFlow(MESSAGES) as flow:
        at_boot, sent_before = ruledflow.kinds(CLIENT, None), flow.row()["packets"]
        newest = ruledflow.newest_id(CLIENT)
        before, bound = fabric_against_local(CLIENT)
        for date in STEPS:
            channel.read(CLIENT, ["date", "-u", "-s", date])
            time.sleep(STEP_SECONDS)
        after, bound_after = fabric_against_local(CLIENT)
        traffic = flow.end(tap, "dates")
    seen = [event["kind"] for event in ruledflow.all_events(CLIENT)]
    tap.check(seen.count("system_clock_set") == len(STEPS), "dates: each step is an event", seen)
    tap.check(abs(after - before) <= bound + bound_after + MAX_SKEW_NS, "dates: fabric time goes on through the steps",
              (before, after, bound, bound_after))
    faulttable.note_head(tap)
    faulttable.note_row(tap, "boot in 1970 and 2038", (traffic[0], sent_before), (None, synced_s, None), at_boot)
    faulttable.note_row(tap, "system clock set (3 times)", traffic, (None, 0, None), ruledflow.kinds(CLIENT, newest))
