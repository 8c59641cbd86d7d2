# SPDX-License-Identifier: BSD-2-Clause
"""A machine that is paused with all its clocks: its fabric time afterwards, as applications read it."""
import collections
import os
import shutil
import statistics
import threading
import time

import events
import faulttable
import labtest
from emulation import channel, machine, state

from . import bench, cleanup, owd, ruledflow

PAUSED, OTHER = bench.CLIENT, bench.SERVER
# Of 10 s the peer forgets the edge; of 2 s it would fit a line over both times.
PAUSES_S = (10, 2)
SLACK_NS = 700e6       # of when a line arrives here, on a busy machine
RESIDUAL_MOST_NS = 1e9  # from the resumption to the first probes
SYNC_SECONDS = 90
MESSAGES = 800  # some 20 s before the pause, beside other work
FREE_RUNNING = 0

Reading = collections.namedtuple("Reading", "host_ns local_ns earliest_ns latest_ns status")


class Readings:
    """What an application in a guest reads, with the host's time of arrival, while the block runs."""

    def __init__(self, name):
        self.name, self.all, self.rest = name, [], b""
        self.leave = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        share = state.guest(self.name)["share"]
        channel.run(self.name, ["python3", f"{share}/guest/readings.py", f"{share}/libescapement.so"], 600, self.take,
                    self.leave)

    def take(self, stream, data):
        if stream == "out":
            now = time.monotonic_ns()
            *lines, self.rest = (self.rest + data).split(b"\n")
            self.all += [Reading(now, *map(int, line.split())) for line in lines]

    def __enter__(self):
        self.thread.start()
        labtest.wait_for(lambda: len(self.all) > 50, 60)
        return self

    def __exit__(self, *_):
        self.leave.set()
        self.thread.join()


def ahead_ns(readings):
    """Of fabric time before the host's clock: the median."""
    return statistics.median((one.earliest_ns + one.latest_ns) / 2 - one.host_ns for one in readings
                             if one.status != FREE_RUNNING)


def wrong(readings, truth_ns):
    """Readings whose interval does not have the truth in it."""
    return [one for one in readings if one.status != FREE_RUNNING and
            not one.earliest_ns - SLACK_NS < one.host_ns + truth_ns < one.latest_ns + SLACK_NS]


def changes(readings, truth_ns):
    """Of a diagnosis: when the status changed, with what the reading was wrong by and its bound, ms."""
    rows = [(one.host_ns // 10**6, one.status, round((one.earliest_ns + one.latest_ns) / 2 - one.host_ns - truth_ns) // 10**6,
             (one.latest_ns - one.earliest_ns) // 2 * 10**-6) for one in readings]
    return [row for row, last in zip(rows, [(0, None, 0, 0)] + rows) if row[1] != last[1] or abs(row[2] - last[2]) > SLACK_NS / 1e6]


def pauses(name):
    return events.parse(channel.read(name, ["escapement", "-j", "events"]), "clock_suspended")


def pause(tap, seconds, paused, other):
    before = len(pauses(PAUSED))
    truth_ns, begun = ahead_ns(other.all[-50:]), (len(paused.all), len(other.all))
    tap.check(not wrong(paused.all[-50:], truth_ns), f"clock_pause, {seconds} s: right before it", paused.all[-50:])
    local_ns = paused.all[-1].local_ns
    machine.monitor(PAUSED, "stop")
    time.sleep(seconds)
    machine.monitor(PAUSED, "cont")
    reported = labtest.wait_for(lambda: pauses(PAUSED)[before:], 20)
    synced = labtest.wait_for(lambda: bench.escapement(PAUSED, "clock")["state"] == "synced", SYNC_SECONDS)
    after, others = paused.all[begun[0]:], other.all[begun[1]:]
    bad = wrong(after, truth_ns)
    residual_ns = bad[-1].local_ns - local_ns if bad else 0
    tap.check(residual_ns < RESIDUAL_MOST_NS, f"clock_pause, {seconds} s: {len(bad)} readings in {residual_ns / 1e6:.0f} "
              "ms between its end and the first probes are wrong, and none later", (truth_ns, bad[:3], bad[-3:]))
    absent = [one for one in after if one.status == FREE_RUNNING]
    tap.check(absent and reported and reported[0]["seen"]["by"] == "probes" and
              1000 < reported[0]["seen"]["least_behind_us"] < seconds * 1e6 + 1e6,
              f"clock_pause, {seconds} s: then there is no fabric time, and an event says why", (len(absent), reported))
    tap.check(synced, f"clock_pause, {seconds} s: synced again", owd.clocks())
    bad = wrong(others, truth_ns)
    tap.check(others and not bad and not pauses(OTHER),
              f"clock_pause, {seconds} s: no reading of the other machine is wrong",
              (changes(others, truth_ns), changes(after, truth_ns), pauses(OTHER)))


def pause_under_traffic(tap, seconds):
    """The sender's machine; its timers are paused with it."""
    name = f"clock_pause, {seconds} s under traffic"
    newest, before = ruledflow.newest_id(PAUSED), len(pauses(PAUSED))
    with ruledflow.RuledFlow(MESSAGES) as flow:
        machine.monitor(PAUSED, "stop")
        time.sleep(seconds)
        machine.monitor(PAUSED, "cont")
        ended = time.monotonic()
        under_way = not flow.running.done()
        synced = labtest.wait_for(lambda: pauses(PAUSED)[before:] and
                                  bench.escapement(PAUSED, "clock")["state"] == "synced", SYNC_SECONDS)
        recovered = time.monotonic() - ended
        traffic = flow.end(tap, name)
    tap.check(under_way, f"{name}: the traffic goes on after the pause")
    tap.check(synced, f"{name}: it is reported, then the machine is synced again", owd.clocks())
    faulttable.note_head(tap)
    faulttable.note_row(tap, f"machine paused for {seconds} s", traffic, (None, recovered, None),
                        ruledflow.kinds(PAUSED, newest))
    channel.read(PAUSED, ["escapement", "mode", "observe"])


def test_clock_pause(tap, folder):
    """A machine that is paused with its clocks: after its neighbors' first probes no reading is wrong."""
    cleanup.make_fresh(**owd.configuration())  # after losses and load a fit may be rejected for minutes
    for name in bench.GUESTS:
        shutil.copy(os.path.join(state.BUILD, "libescapement.so"), state.guest(name)["share"])
    now = owd.wait_synced()
    tap.check({clock["state"] for clock in now.values()} == {"synced"}, "clock_pause: both clocks are synced", now)
    with Readings(PAUSED) as paused, Readings(OTHER) as other:
        for seconds in PAUSES_S:
            pause(tap, seconds, paused, other)
    pause_under_traffic(tap, PAUSES_S[0])
