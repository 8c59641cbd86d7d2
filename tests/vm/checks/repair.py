# SPDX-License-Identifier: BSD-2-Clause
"""NVMe over Fabrics while the path of its busiest queue pair loses everything for 3 s: with repair no request takes
much longer than it takes to find out, and no queue pair ends."""
import concurrent.futures
import json
import math
import shutil
import time

import events
from emulation import channel

from . import bench, cleanup, clients, failover, owd
from .bench import CLIENT

DIRECTIONS = ("data", "acks", "both")
# A path is found dead a dead_after (100 ms) after the first probe that was not received: the interval is a part of that.
STEERED = failover.AUTO.replace("probe_interval: 10ms", "probe_interval: 5ms")
FIO_SECONDS = 14  # a try after one that was over too early: for longer
SETTLE_S = 3
WINDOW_S = failover.FAILURE_S + 2  # from the order to fail to the last request that it may have delayed
# Of the guests' dead_after; emulated machines add their own stalls, see tests/vm/README.
LIMIT_MS = 500
LONGER_MS = 2000
# Soft-RoCE's own timer. Where a stalled guest took longer to find the path dead, the transport had begun its go-back-N,
# which soft-RoCE does not survive here: that run shows nothing of repair, and is made again.
TIMER_US, TRIES = 400_000, 3
RUNS = 1  # of every direction; one run is of both ways alone
ONLY = None  # directions, separated by commas


def of_kind(name, kind):
    return events.parse(channel.read(name, ["escapement", "-j", "events"]), kind)


def repaired(name):
    return of_kind(name, "path_repaired")


def durations_us(name):
    """Of each failover so far: from the last probe that was received to the first packet on the backup."""
    return [event["result"].get("failover_us") for event in of_kind(name, "path_failover")]


def run_failed(direction, seconds=FIO_SECONDS, steered=True):
    """One fio run with a failure: what fio says, with the events of repairs and what soft-RoCE repaired."""
    before, lost, failovers = bench.each(repaired), clients.lost_lines(), bench.each(durations_us)
    counters = bench.each(bench.rxe_counters)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(clients.run_fio, seconds)
        ready = failover.wait_flows(steered)
        time.sleep(SETTLE_S)
        begun_s = float(channel.read(CLIENT, ["date", "+%s.%N"]))
        if ready:
            failover.fail(direction)
        over = running.done()
        seen = running.result()
    seen.update(ready=bool(ready), over=over, lost=clients.lost_lines() - lost)
    slowest = [(at_s - begun_s, ms) for at_s, ms in seen.pop("slowest", [])]
    seen["failed_ms"] = max((ms for at_s, ms in slowest if 0 < at_s < WINDOW_S), default=None)
    # What the failure did not delay: the guests' own stalls; and when it was complete, in s after the order to fail.
    seen["calm_ms"], seen["calm_at_s"] = max(((ms, round(at_s, 2)) for at_s, ms in slowest
                                              if not 0 < at_s < WINDOW_S), default=(None, None))
    seen["repaired"] = [[event["done"] for event in now[len(then):]]
                        for then, now in zip(before, bench.each(repaired))]
    seen["failover_us"] = [now[len(then):] for then, now in zip(failovers, bench.each(durations_us))]
    seen["listed"] = [json.loads(channel.read(name, ["escapement", "-j", "steer"]))["repair"] for name in bench.GUESTS]
    seen["late"] = any(us is None or us > TIMER_US for each in seen["failover_us"] for us in each)
    seen["repairs"] = {f"{name} {counter}": now[counter] - then[counter]
                       for name, then, now in zip(bench.GUESTS, counters, bench.each(bench.rxe_counters))
                       for counter in now if now[counter] != then[counter] and "pkts" not in counter}
    return seen


def run_fresh(direction, seconds=FIO_SECONDS, steered=True):
    """run_failed() with new daemons and a new connection; beside it what to show of it, and the initiator's log."""
    cleanup.make_fresh(top=STEERED if steered else "", members=owd.members(), key=owd.KEY)
    time.sleep(10)
    with clients.nvme_disk():
        seen = run_failed(direction, seconds, steered)
        said = clients.shell(CLIENT, "dmesg | tail -20").out
    return seen, {key: value for key, value in seen.items() if key not in ("good", "output")}, said


def test_repair(tap, folder):
    """NVMe over Fabrics under fio: the path in use is silent for 3 s, toward the target, the initiator, both."""
    missing = [tool for tool in ("fio", "nvme") if not shutil.which(tool)]
    if not tap.check(not missing, "the programs are here", f"{missing}: tests/deps long"):
        return
    directions = tuple(ONLY.split(",")) if ONLY else DIRECTIONS if RUNS > 1 else DIRECTIONS[-1:]
    unknown = set(directions) - set(DIRECTIONS)
    if not tap.check(not unknown, "the directions are known", f"{unknown}: there are {', '.join(DIRECTIONS)}"):
        return
    longest = {direction: [] for direction in DIRECTIONS}
    for direction in RUNS * directions:
        seconds = FIO_SECONDS
        for _ in range(TRIES):
            seen, shown, said = run_fresh(direction, seconds)
            tap.note(f"{direction}: {shown}")
            if not seen["late"] and not seen["over"]:
                break
            seconds *= 1 + seen["over"]
        what = f"{direction}, found dead too late" if seen["late"] else direction
        tap.check(seen["ready"], f"{direction}: the queue pairs have a backup before the failure")
        tap.check(not seen["over"], f"{direction}: fio ran when it had failed")
        tap.check(seen["good"], f"{direction}: fio ran to its end, its data is right", seen["output"])
        tap.check(seen["late"] or not seen["lost"], f"{what}: no queue pair ended", said)
        tap.check(seen["late"] or seen.get("longest_ms", LONGER_MS) < LONGER_MS,
                  f"{what}: the longest request took {seen.get('longest_ms')} ms", shown)
        tap.check(any(seen["repaired"]), f"{direction}: packets were sent once more", shown)
        tap.check(all(listed["mode"] == "replay" and listed["packets"] >= sum(done["packets"] for done in told)
                      for listed, told in zip(seen["listed"], seen["repaired"])),
                  f"{direction}: `steer` lists them", shown)
        longest[direction].append(seen.get("longest_ms", float("inf")))
    if RUNS > 1:
        show_series(tap, longest)


def show_series(tap, longest):
    """The longest request of each run, and of one without steering."""
    for direction, found in longest.items():
        if not found:
            continue
        found.sort()
        tap.note(f"{direction}: {', '.join(f'{ms:.0f}' for ms in found)} ms; 95th percentile "
                 f"{found[math.ceil(0.95 * len(found)) - 1]:.0f}, longest {found[-1]:.0f}")
    seen, shown, _ = run_fresh(DIRECTIONS[0], steered=False)
    tap.note(f"{DIRECTIONS[0]}, without steering: {shown}")
    tap.check(seen.get("longest_ms", LONGER_MS) >= LONGER_MS,
              f"{DIRECTIONS[0]}: without steering the longest request takes {seen.get('longest_ms')} ms", seen)
