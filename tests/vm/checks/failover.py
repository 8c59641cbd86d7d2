# SPDX-License-Identifier: BSD-2-Clause
"""A path of real queue pairs fails silently: with steering, and with static ECMP.

A spine that drops what it receives (a blackhole route): no carrier is lost, no error is reported. It fails
for the data, for the ACKs, or for both.
"""
import ipaddress
import json
import os
import subprocess
import threading
import time

import events
import rocev2
from emulation import capture, channel, errors, perftest, state

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

# One window of soft-RoCE is 128 packets; a QP that lost all of it waits for its timeout.
QP_TIMEOUT_S = 4.096e-6 * 2**17
LOAD = ("-s", "16384", "--rate_limit", "1", "--rate_units", "M", "--rate_limit_type", "SW", "-u", "17")
MESSAGES = (900, 2700)  # 15 s; where a busy machine found the paths too late for that, once more for three times as long
SLOW_TIMER, STALLED_NS = "20", 10**9
SETTLE_S = 3
FAILURE_S = 3  # how long the spine drops
STARTED_S = 0.2  # until a process that is to fail it waits
BACKUP_WAIT_S = 40
# Of one failure: detected (paths.dead_after), what was lost is sent once more; probes, ticks and the path add a tenth.
# An emulated machine adds twice its longest gap without a failure at most.
DEAD_AFTER_S, MARGIN_S = 0.1, 0.1
AUTO = ("steer: { mode: auto }\nmesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
        "paths: { probe_interval: 10ms, standby_interval: 50ms, dead_after: 100ms }\n")
NICE = 19
RUNS = 1  # of every failure with steering


def leaf_of(name):
    return state.guest(name)["leaf"]


def version_of(row):
    return ipaddress.ip_address(row["dst"]).version


def spine_of(source, sport, version=4):
    """Where the kernel of the source's leaf sends packets with that source port."""
    guest = state.guest(source)
    found = subprocess.run(state.in_netns(guest["netns"], [
        "ip", "-j", "route", "get", bench.address_of(bench.other(source), version), "from",
        bench.address_of(source, version), "iif", guest["tap"], "ipproto", "udp", "sport", str(sport),
        "dport", str(rocev2.ROCE_PORT)]), stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(found.stdout)[0]["dev"]


class Blackhole:
    """Spines that lose what goes to some guests: @holes are (spine, guest). All begin, and end, in one instant: a process
    for each spine waits in its namespace with all its routes."""

    def __init__(self, *holes):
        self.routes = {}
        for spine, guest in holes:
            self.routes.setdefault(spine, []).extend(bench.address_of(guest, version) for version in (4, 6))

    def prepare(self, verb):
        """The processes that will change the routes; each reads a line first."""
        script = "read -r _ && ip -batch -"
        waiting = []
        for spine, routes in self.routes.items():
            waiting.append((subprocess.Popen(state.in_netns(f"{state.LAB}-{spine}", ["sh", "-c", script]), text=True,
                                             stdin=subprocess.PIPE, stderr=subprocess.PIPE),
                            "\n" + "".join(f"route {verb} blackhole {route}\n" for route in routes)))
        time.sleep(STARTED_S)
        return waiting

    def change(self, waiting):
        for process, text in waiting:
            process.stdin.write(text)
            process.stdin.close()
        for process, _ in waiting:
            said = process.stderr.read()
            process.stderr.close()
            if process.wait():
                raise errors.VmError(f"a blackhole route: {said.strip()}")

    def __enter__(self):
        self.change(self.prepare("add"))

    def __exit__(self, *_):
        self.change(self.prepare("del"))


def busiest():
    """Of each guest, the queue pair of its own that sends most now, as a row."""
    rows = bench.each(lambda name: [row for key, row in bench.queue_pairs(name).items()
                                    if key[0] == "tx" and row["transport"] == "RC"])
    return [max(found, key=lambda row: (row["throughput_bps"], row["packets"])) for found in rows]


def holes_of(direction, there, back):
    """What Blackhole() takes; @there, @back: the spines of the data and of the ACKs."""
    return {"data": [(there, SERVER)], "acks": [(back, CLIENT)], "both": [(there, SERVER), (back, CLIENT)]}[direction]


def fail(direction):
    """The spines under it lose what goes to the target ("data"), to the initiator ("acks"), or both, for a while."""
    there, back = (spine_of(name, row.get("steered_sport", row["sport"]), version_of(row))
                   for name, row in zip(bench.GUESTS, busiest()))
    with Blackhole(*holes_of(direction, there, back)):
        time.sleep(FAILURE_S)


def leaving(name):
    """{(dst, qpn): source port on the wire} of what a guest sends now."""
    return {(dst, qpn): row.get("steered_sport", row["sport"])
            for (direction, _, dst, qpn), row in bench.queue_pairs(name).items()
            if direction == "tx"}


def sending(name, before):
    """Entries of what a guest sends that grew."""
    return [row for key, row in bench.queue_pairs(name).items() if key[0] == "tx" and
            row["packets"] > before.get(key, {}).get("packets", 0)]


def wait_flows(with_backup, over=None):
    """The one queue pair's entries, data and ACKs; with @with_backup each on a candidate path that has a backup. @over:
    an event that ends the waiting."""
    deadline, before = time.monotonic() + BACKUP_WAIT_S, bench.each(bench.queue_pairs)
    while time.monotonic() < deadline and not (over and over.is_set()):
        time.sleep(0.5)
        rows = bench.each(lambda name: sending(name, before[bench.GUESTS.index(name)]))
        if not all(rows):
            continue
        rows = [max(found, key=lambda row: row["packets"]) for found in rows]
        if not with_backup or all(bench.each(lambda name: has_backup(name, rows[bench.GUESTS.index(name)]))):
            return rows
    return None


def has_backup(name, row):
    """The queue pair has a rule, whose candidate path (which may have the port of another queue pair on the same
    path) has a backup in another path group."""
    rules = [rule for rule in bench.escapement(name, "steer")["steers"]
             if (rule["src"], rule["dst"], rule["dest_qpn"]) == (row["src"], row["dst"], row["dest_qpn"])]
    if not any(rule["by"] == "automatic" and rule["state"] != "waiting" for rule in rules):
        return False
    # One in hold-down has failed before, when a guest stalled: traffic leaves it when it fails again.
    paths = {path["path_id"]: path for path in bench.escapement(name, "paths")["paths"]
             if path["state"] in ("up", "hold_down") and (path["from"], path["to"]) == (row["src"], row["dst"])}
    used = paths.get(rules[0]["path_id"])
    groups = {path["sport"]: path.get("group") for path in paths.values()}
    return used is not None and groups.get(used.get("backup_sport")) not in (None, used.get("group"))


def during_failure(name):
    """The state of a daemon during the failure, for a diagnosis."""
    keys = ("path_id", "sport", "group", "state", "sent", "replied", "qps", "use", "backup_sport",
            "dead_after_ns", "interval_ns", "diverted")
    return {"paths": [{key: path.get(key) for key in keys}
                      for path in bench.escapement(name, "paths")["paths"]],
            "steer": bench.escapement(name, "steer"),
            "mode": bench.interface(name).get("mode")}


def failovers(name):
    return len(events.parse(channel.read(name, ["escapement", "-j", "events"]), "path_failover"))


def run(folder, direction, steered):
    """One ib_write_bw over one failure: see run_once()."""
    for messages in MESSAGES:
        seen = run_once(folder, direction, steered, messages)
        if seen.get("gap_s") is not None or not seen["good"]:
            break
    return seen


def run_once(folder, direction, steered, messages):
    """One ib_write_bw and one failure: {good, gap_s, rest_s, ...}, without a gap if the traffic was over before."""
    path = os.path.join(folder, "failover.pcap")
    seen, result = {}, {}
    before = bench.each(failovers) if steered else None
    capture.start(SERVER, path)
    load = threading.Thread(target=lambda: result.update(perftest.run(
        CLIENT, SERVER, "ib_write_bw", qps=1, gid="v4", extra=LOAD + ("-n", str(messages)), nice=NICE)))
    load.start()
    try:
        rows = wait_flows(steered)
        if rows:
            time.sleep(SETTLE_S)
            there, back = (spine_of(name, row.get("steered_sport", row["sport"]))
                           for name, row in zip(bench.GUESTS, rows))
            with Blackhole(*holes_of(direction, there, back)):
                seen["failed_at"] = time.time()
                time.sleep(FAILURE_S / 2)
                if steered:
                    seen["during_failure"] = bench.each(during_failure)
                time.sleep(max(0, seen["failed_at"] + FAILURE_S - time.time()))
            seen["back_at"] = time.time()
    finally:
        load.join()
        capture.stop(SERVER)
    seen["good"] = result.get("good", False)
    seen["output"] = result.get("client_output", "") + result.get("server_output", "")
    if rows:
        source = ipaddress.ip_address(bench.address_of(CLIENT, 4)).packed
        times = [packet.time for packet in rocev2.progress(rocev2.packets(path), source)]
        seen["ended_at"] = times[-1] if times else 0
        if seen["ended_at"] > seen["back_at"]:  # else the traffic was over, and was not interrupted
            seen.update(longest_gap(times, seen["failed_at"], seen["back_at"]))
            calm = [when for when in times if seen["failed_at"] - SETTLE_S < when < seen["failed_at"]], \
                [when for when in times if when > seen["back_at"] + 1]
            seen["calm_s"] = max(b - a for part in calm for a, b in zip(part, part[1:]))
    if steered:
        seen["failovers"] = [now - old for now, old in zip(bench.each(failovers), before)]
    return seen


def longest_gap(times, failed_at, back_at):
    """The longest time without progress that began during the failure."""
    gaps = [(b - a, a) for a, b in zip(times, times[1:]) if b > failed_at and a < back_at]
    longest = max(gaps, default=(None, None))
    return {"gap_s": longest[0], "progress": sum(failed_at < when < back_at for when in times)}


def stalls(name):
    return events.parse(channel.read(name, ["escapement", "-j", "events"]), "qp_stalled")


def test_stalled(tap, folder):
    """A queue pair without replies is reported within a second, long before its timer; one that was idle is not."""
    cleanup.make_ready(**owd.configuration())
    load = threading.Thread(target=perftest.run, args=(CLIENT, SERVER, "ib_write_bw"), kwargs={
        "qps": 1, "nice": NICE, "extra": (*LOAD, "-u", SLOW_TIMER, "-n", str(MESSAGES[0]))})
    known, found = len(stalls(CLIENT)), []
    load.start()
    try:
        rows = wait_flows(False)
        before = stalls(CLIENT)[known:]
        with Blackhole((spine_of(CLIENT, rows[0]["sport"]), SERVER)):
            deadline = time.monotonic() + FAILURE_S
            while time.monotonic() < deadline and not found:
                time.sleep(0.2)
                found = stalls(CLIENT)[known + len(before):]
    finally:
        load.join()
    tap.equal([event["subject"] for event in before], [], "stalled: none is before it has no replies")
    if tap.check(found, f"stalled: reported within {FAILURE_S} s, the queue pair's timer is 4.3 s"):
        seen = found[0]["seen"]
        tap.check(seen["retransmits"] == 0 and seen["no_progress_ns"] < STALLED_NS,
                  f"stalled: after {seen['no_progress_ns'] / 1e6:.0f} ms, nothing was retransmitted", seen)


def test_failover(tap, folder):
    """A spine drops one direction or both silently: ib_write_bw goes on, beside static ECMP."""
    for steered in [False] + RUNS * [True]:
        # Empty tables: a path that failed three times stays in hold-down for long, and queue pairs of tests
        # before would occupy the candidate paths. Static ECMP has neither: it shares the daemons of owd.
        if steered:
            cleanup.make_fresh(top=AUTO, members=owd.members(), key=owd.KEY)
            owd.wait_synced()
        else:
            cleanup.make_ready(**owd.configuration())
        # In `make check` lab/test_failover has each direction.
        for direction in (("data", "acks", "both") if RUNS > 1 else ("both",)) if steered else ("data",):
            check_direction(tap, folder, direction, steered)


def check_direction(tap, folder, direction, steered):
    what = f"failover, {direction}" + ("" if steered else ", static ECMP")
    seen = run(folder, direction, steered)
    tap.note(f"{what}: {({k: v for k, v in seen.items() if k not in ('output', 'during_failure')})}")
    there = seen.get("gap_s") is not None
    tap.check(there, f"{what}: the traffic was there" + (" and on candidate paths with a backup" if steered else ""),
              there or [seen] + [bench.escapement(n, v) for n in bench.GUESTS
                                 for v in ("paths", "steer", "status") if steered])
    if not there:
        return
    tap.check(seen["good"], f"{what}: no QP error, ib_write_bw ran to its end", seen["output"])
    if steered:
        limit = DEAD_AFTER_S + MARGIN_S + 2 * seen["calm_s"]
        tap.check(seen["gap_s"] < limit,
                  f"{what}: the longest gap is {seen['gap_s'] * 1e3:.0f} ms, below {limit * 1e3:.0f}", seen)
        tap.check(any(seen["failovers"]), f"{what}: and an event reports it", seen)
    else:
        tap.check(seen["gap_s"] > FAILURE_S - QP_TIMEOUT_S,
                  f"{what}: stalls for {seen['gap_s'] * 1e3:.0f} ms", seen)
