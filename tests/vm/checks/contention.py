# SPDX-License-Identifier: BSD-2-Clause
"""Automatic steering between two machines with a clock each: four queue pairs of soft-RoCE over two spines of limited
rate. Where ECMP puts three or all of them onto one, some leave it; where it puts two onto each, none moves."""
import collections
import json
import subprocess
import threading
import time

import events
from emulation import channel, perftest, state

from . import bench, cleanup, failover, owd
from .bench import CLIENT

LINK_MBIT, BURST_BYTES, QUEUE_BYTES = 8, 16384, 400000
TOP = (f"steer: {{ mode: auto, capacity: {LINK_MBIT}mbit }}\nmesh: {{ pair_interval: 20ms }}\nclock: {{ window: 10s }}\n"
       "paths: { probe_interval: 10ms, standby_interval: 50ms, dead_after: 500ms }\n")
QPS = 4
# One message under way: all before is acknowledged when the next one begins, and the queue pair may move there.
LOAD = ("-s", "16384", "-t", "1", "-D", "20", "-u", "20")
READ_S, REST_S, WAIT_S = 0.1, 10, 40
LEAVES_S = 1.0   # after the first packet
SHARE = 0.8      # of each uplink's rate, in the last seconds
RUNS = 3
MOVING = ("move_scheduled", "path_switched")


def leaf(*words):
    netns = state.guest(CLIENT)["netns"]
    return subprocess.run(state.in_netns(netns, list(words)), stdout=subprocess.PIPE, check=True, text=True).stdout


def uplinks():
    return sorted({failover.spine_of(CLIENT, sport) for sport in range(50000, 50032)})


class Uplinks:
    """Limits them, and reads how many bytes left by each: [(time, {uplink: bytes})]."""

    def __init__(self):
        self.names, self.seen = uplinks(), []
        self.ended = threading.Event()
        self.reader = threading.Thread(target=self.read)

    def bytes(self):
        return {name: json.loads(leaf("tc", "-s", "-j", "qdisc", "show", "dev", name))[0]["bytes"]
                for name in self.names}

    def read(self):
        while not self.ended.wait(READ_S):
            self.seen.append((time.time(), self.bytes()))

    def __enter__(self):
        for name in self.names:
            leaf("tc", "qdisc", "replace", "dev", name, "root", "tbf", "rate", f"{LINK_MBIT}mbit", "burst",
                 str(BURST_BYTES), "limit", str(QUEUE_BYTES))
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.reader.join()
        for name in self.names:
            leaf("tc", "qdisc", "del", "dev", name, "root")

    def shares(self, begin, end):
        """Of the rate of each uplink, between two times."""
        part = [one for one in self.seen if begin <= one[0] <= end]
        (then, before), (now, after) = part[0], part[-1]
        return {name: round((after[name] - before[name]) * 8 / (now - then) / (LINK_MBIT * 1e6), 2) for name in self.names}


def guest_ahead():
    """Its wall clock's seconds ahead of ours."""
    return float(channel.read(CLIENT, ["date", "+%s.%N"])) - time.time()


def told(since):
    """[(kind, when)] of moves since then, by our wall clock."""
    ahead, text = guest_ahead(), channel.read(CLIENT, ["escapement", "-j", "events"])
    found = [(kind, event["time_ns"] / 1e9 - ahead) for kind in MOVING for event in events.parse(text, kind)]
    return sorted((one for one in found if one[1] > since), key=lambda one: one[1])


def flowing():
    return [row for row in failover.sending(CLIENT, {}) if row["transport"] == "RC" and row["packets"] > 10]


def run_once():
    """{good, placed, began, moves, shares, ...} of one ib_write_bw with four queue pairs."""
    before = {row["dest_qpn"] for row in flowing()}
    repairs = bench.each(bench.rxe_counters)
    result, since = {}, time.time()
    load = threading.Thread(target=lambda: result.update(perftest.run(
        CLIENT, bench.SERVER, "ib_write_bw", qps=QPS, extra=LOAD, nice=failover.NICE)))
    with Uplinks() as seen:
        load.start()
        rows, deadline = [], time.monotonic() + WAIT_S
        while len(rows) < QPS and load.is_alive() and time.monotonic() < deadline:
            time.sleep(READ_S)
            rows = [row for row in flowing() if row["dest_qpn"] not in before]
        load.join()
    again = [sum(now[counter] - old[counter] for counter in bench.REPAIRS)
             for now, old in zip(bench.each(bench.rxe_counters), repairs)]
    placed = collections.Counter(failover.spine_of(CLIENT, row["sport"]) for row in rows)
    idle = seen.seen[0][1]
    began = next((when for when, count in seen.seen if sum(count.values()) - sum(idle.values()) > 100000), None)
    moves = [(kind, round(when - (began or since), 2)) for kind, when in told(since)]
    ended = max((when for (when, count), (_, last) in zip(seen.seen, seen.seen[1:]) if count != last), default=None)
    return {"good": result.get("good", False), "output": result.get("client_output", ""), "qps": len(rows),
            "placed": dict(placed), "moves": moves, "repairs": again,
            "first": began and seen.shares(began, began + LEAVES_S),
            "last": ended and seen.shares(ended - REST_S, ended - 1)}


def check_run(tap, number, seen):
    shown = {key: value for key, value in seen.items() if key != "output"}
    tap.note(f"contention {number}: {shown}")
    tap.check(seen["good"] and seen["qps"] == QPS and seen["last"], f"contention {number}: no queue pair failed",
              seen["output"])
    switched = [at for kind, at in seen["moves"] if kind == "path_switched"]
    if max(seen["placed"].values(), default=0) == QPS / 2:
        tap.check(not switched, f"contention {number}: two on each path, none moves", shown)
        return
    tap.check(switched and min(switched) < LEAVES_S,
              f"contention {number}: placed {sorted(seen['placed'].values())}, the contended path is left after "
              f"{min(switched, default=None)} s", shown)
    tap.check(seen["last"] and min(seen["last"].values()) > SHARE,
              f"contention {number}: in the end both paths are full", shown)


def test_contention(tap, folder):
    """Four queue pairs leave a contended path, by the delays between two machines with a clock each."""
    cleanup.make_fresh(top=TOP, members=owd.members(), key=owd.KEY)
    owd.wait_synced()
    tap.note([bench.escapement(name, "clock")["bound_ns"] for name in bench.GUESTS])
    for number in range(RUNS):
        check_run(tap, number + 1, run_once())
