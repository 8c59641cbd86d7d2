# SPDX-License-Identifier: BSD-2-Clause
"""The system clock: machines booted in 1970 and 2038, and a clock that is set under traffic, with a rule in force."""
import concurrent.futures
import json
import time

from emulation import channel, machine, perftest

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

BOOT = {CLIENT: "1970-01-01T00:00:30", SERVER: "2038-01-19T03:13:00"}  # 2^31 s are 03:14:07
STEPS = ("2026-11-01 00:00:00", "2038-01-19 03:14:06", "1970-01-02 00:00:00")
LOAD = ("-s", "16384", "-n", "200", "--rate_limit", "1", "--rate_units", "M", "--rate_limit_type", "SW")
STEP_SECONDS = 3
FLOW_SECONDS = 60
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


def flowing():
    """The queue pair that the client sends on."""
    deadline = time.monotonic() + FLOW_SECONDS
    while time.monotonic() < deadline:
        rows = [row for row in bench.escapement(CLIENT, "qp")["qps"] if row["direction"] == "tx"
                and row["packets"] > 100 and row.get("active", True)]
        if rows:
            return rows[-1]
        time.sleep(0.2)
    raise TimeoutError("no traffic")


def events(name):
    return [json.loads(line) for line in channel.read(name, ["escapement", "-j", "events"]).splitlines()]


def fabric_against_local(name):
    """Fabric time less CLOCK_MONOTONIC, and the bound."""
    clock = bench.escapement(name, "clock")
    return clock["fabric_ns"] - clock["local_ns"], clock["bound_ns"]


def test_dates(tap, folder):
    """Boot in 1970 and 2038; the clock set back and forth under ib_write_bw with a rule in force."""
    boot(BOOT)
    tap.equal({name: year(name) for name in bench.GUESTS}, {CLIENT: 1970, SERVER: 2038},
              "dates: the machines are booted in 1970 and 2038")
    cleanup.make_fresh(**owd.configuration())
    clocks = owd.wait_synced()
    tap.equal({name: clock["state"] for name, clock in clocks.items()}, dict.fromkeys(bench.GUESTS, "synced"),
              "dates: both have fabric time")
    channel.read(CLIENT, ["escapement", "mode", "steer"])
    repairs = {name: bench.rxe_counters(name) for name in bench.GUESTS}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(perftest.run, CLIENT, SERVER, "ib_write_bw", qps=1, gid="v4", extra=LOAD, nice=19)
        row = flowing()
        channel.read(CLIENT, ["escapement", "steer", "set", "--dst", row["dst"], "--qpn", str(row["dest_qpn"]),
                              "--sport", str(row["sport"] ^ 1), "--force"])
        before, bound = fabric_against_local(CLIENT)
        for date in STEPS:
            channel.read(CLIENT, ["date", "-u", "-s", date])
            time.sleep(STEP_SECONDS)
        after, bound_after = fabric_against_local(CLIENT)
        rules = bench.escapement(CLIENT, "steer")
        result = running.result()
    again = {name: bench.rxe_counters(name) for name in bench.GUESTS}
    lost = {name: {key: again[name][key] - repairs[name][key] for key in bench.REPAIRS
                   if again[name][key] != repairs[name][key]} for name in bench.GUESTS}
    seen = events(CLIENT)
    kinds = [event["kind"] for event in seen]
    tap.check(result["good"], "dates: the traffic ran to its end", result["client_output"] + result["server_output"])
    tap.equal(lost, {name: {} for name in bench.GUESTS}, "dates: no packet was lost or sent again")
    tap.check(kinds.count("system_clock_set") == len(STEPS), "dates: each step is an event", kinds)
    tap.check("lapsed" not in [event.get("done", {}).get("reason") for event in seen], "dates: no rule lapsed",
              (rules, seen))
    tap.check(abs(after - before) <= bound + bound_after + MAX_SKEW_NS, "dates: fabric time goes on through the steps",
              (before, after, bound, bound_after))
