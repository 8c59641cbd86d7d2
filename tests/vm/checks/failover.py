# SPDX-License-Identifier: BSD-2-Clause
"""A path of real queue pairs dies without a word: with steering, and as static ECMP has it.

A spine that takes packets and gives nothing on (a blackhole route): no carrier is lost, no switch
says anything. It dies for the data, for what comes back, or for both.
"""
import ipaddress
import json
import os
import subprocess
import threading
import time

import events
import rocev2
from emulation import capture, channel, daemon, perftest, state

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

# One window of soft-RoCE is 128 packets; a QP that lost all of it waits for its timeout.
QP_TIMEOUT_S = 4.096e-6 * 2**17
LOAD = ("-s", "16384", "--rate_limit", "1", "--rate_units", "M", "--rate_limit_type", "SW", "-u", "17")
MESSAGES = (900, 2700)  # 15 s; where a busy machine found the paths too late for that, once more for three times as long
SETTLE_S = 3
DEAD_S = 4  # the spine stays dead for so long
COVER_S = 40
# Of one failure: noticed (paths.dead_after), the window that it took waits for its timeout; probes, ticks and the
# way add a tenth. An emulated machine adds what it waits without a failure, twice at most.
DEAD_AFTER_S, MARGIN_S = 0.1, 0.1
AUTO = ("steer: { mode: auto }\nmesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
        "paths: { probe_interval: 10ms, standby_interval: 50ms, dead_after: 100ms }\n")
PLAIN = "mesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
NICE = 19
RUNS = 1  # of every death with steering


def leaf_of(name):
    return state.guest(name)["leaf"]


def spine_of(source, sport):
    """Where the kernel of the source's leaf sends packets with that source port."""
    guest = state.guest(source)
    found = subprocess.run(state.in_netns(guest["netns"], [
        "ip", "-j", "route", "get", bench.address_of(bench.other(source), 4), "from",
        bench.address_of(source, 4), "iif", guest["tap"], "ipproto", "udp", "sport", str(sport),
        "dport", str(rocev2.ROCE_PORT)]), stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(found.stdout)[0]["dev"]


class Blackhole:
    """A spine that loses what goes to some guests."""

    def __init__(self, spine, targets):
        self.spine = spine
        self.routes = [f"{bench.address_of(name, 4)}/32" for name in targets]

    def change(self, verb):
        for route in self.routes:
            state.lab("exec", self.spine, "--", "ip", "route", verb, "blackhole", route)

    def __enter__(self):
        self.change("add")

    def __exit__(self, *_):
        self.change("del")


def leaving(name):
    """{(dst, qpn): source port on the wire} of what a guest sends now."""
    return {(dst, qpn): row.get("steered_sport", row["sport"])
            for (direction, _, dst, qpn), row in bench.queue_pairs(name).items()
            if direction == "tx"}


def sending(name, before):
    """Entries of what a guest sends that grew."""
    return [row for key, row in bench.queue_pairs(name).items() if key[0] == "tx" and
            row["packets"] > before.get(key, {}).get("packets", 0)]


def wait_flows(covered):
    """The one queue pair's entries, data and ACKs; with @covered each on a lane that has a standby."""
    deadline, before = time.monotonic() + COVER_S, [bench.queue_pairs(n) for n in bench.GUESTS]
    while time.monotonic() < deadline:
        time.sleep(1)
        rows = [sending(name, old) for name, old in zip(bench.GUESTS, before)]
        if not all(rows):
            continue
        rows = [max(found, key=lambda row: row["packets"]) for found in rows]
        if not covered or all(is_covered(*each) for each in zip(bench.GUESTS, rows)):
            return rows
    return None


def is_covered(name, row):
    """The queue pair has an order that names its lane, and another path stands by."""
    orders = [order for order in bench.escapement(name, "steer")["steers"]
              if (order["dst"], order["dest_qpn"]) == (row["dst"], row["dest_qpn"])]
    if not any(order["by"] == "automatic" and order["state"] != "waiting" for order in orders):
        return False
    # One that is held has died before, by a guest that stood still: it is left when it dies again.
    paths = [path for path in bench.escapement(name, "paths")["paths"]
             if path["state"] in ("up", "hold_down")]
    groups = {path["sport"]: path.get("group") for path in paths}
    used = [path for path in paths if path["qps"]]
    return bool(used) and all(groups.get(path.get("backup_sport")) is not None and
                              groups[path["backup_sport"]] != path.get("group") for path in used)


def while_dead(name):
    """What a daemon knows of the death, for a diagnosis."""
    keys = ("path_id", "sport", "group", "state", "sent", "replied", "qps", "use", "backup_sport",
            "dead_after_ns", "interval_ns", "diverted")
    return {"paths": [{key: path.get(key) for key in keys}
                      for path in bench.escapement(name, "paths")["paths"]],
            "steer": bench.escapement(name, "steer"),
            "mode": bench.interface(name).get("mode")}


def failovers(name):
    return len(events.parse(channel.read(name, ["escapement", "-j", "events"]), "path_failover"))


def run(folder, direction, steered):
    """One ib_write_bw that outlives one death: see run_once()."""
    for messages in MESSAGES:
        seen = run_once(folder, direction, steered, messages)
        if seen.get("gap_s") is not None or not seen["good"]:
            break
    return seen


def run_once(folder, direction, steered, messages):
    """One ib_write_bw and one death: {good, gap_s, rest_s, ...}, without a gap if the traffic was over before."""
    path = os.path.join(folder, "failover.pcap")
    seen, result = {}, {}
    before = [failovers(name) for name in bench.GUESTS] if steered else None
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
            holes = {"data": [Blackhole(there, [SERVER])], "acks": [Blackhole(back, [CLIENT])],
                     "both": [Blackhole(there, [SERVER]), Blackhole(back, [CLIENT])]}[direction]
            seen["dead_at"] = time.time()
            for hole in holes:
                hole.__enter__()
            time.sleep(DEAD_S / 2)
            if steered:
                seen["while_dead"] = [while_dead(name) for name in bench.GUESTS]
            time.sleep(max(0, seen["dead_at"] + DEAD_S - time.time()))
            for hole in holes:
                hole.__exit__()
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
        if seen["ended_at"] > seen["back_at"]:  # else the traffic was over, and waited for nothing
            seen.update(longest_gap(times, seen["dead_at"], seen["back_at"]))
            calm = [when for when in times if seen["dead_at"] - SETTLE_S < when < seen["dead_at"]], \
                [when for when in times if when > seen["back_at"] + 1]
            seen["calm_s"] = max(b - a for part in calm for a, b in zip(part, part[1:]))
    if steered:
        seen["failovers"] = [failovers(name) - old for name, old in zip(bench.GUESTS, before)]
    return seen


def longest_gap(times, dead_at, back_at):
    """The longest time without progress that began while the spine was dead; in all that time."""
    gaps = [(b - a, a) for a, b in zip(times, times[1:]) if b > dead_at and a < back_at]
    longest = max(gaps, default=(None, None))
    return {"gap_s": longest[0], "progress": sum(dead_at < when < back_at for when in times)}


def test_failover(tap, folder):
    """A spine loses one direction or both without a word: ib_write_bw goes on, beside static ECMP."""
    try:
        # Each round begins with empty tables: a path that died three times has to prove itself for
        # long, and queue pairs of tests before would keep all lanes to themselves.
        for steered in RUNS * [True] + [False]:
            cleanup.remove()
            daemon.start(bench.GUESTS, top=AUTO if steered else PLAIN, members=owd.members(),
                         key=owd.KEY)
            owd.wait_in_step()
            for direction in ("data", "acks", "both") if steered else ("data",):
                what = f"failover, {direction}" + ("" if steered else ", static ECMP")
                seen = run(folder, direction, steered)
                tap.note(f"{what}: {({k: v for k, v in seen.items() if k not in ('output', 'while_dead')})}")
                if not tap.check(seen.get("gap_s") is not None,
                                 f"{what}: the traffic was there" +
                                 (" and on lanes with a standby" if steered else ""),
                                 [seen] + [bench.escapement(n, v) for n in bench.GUESTS
                                           for v in ("paths", "steer", "status") if steered]):
                    continue
                tap.check(seen["good"], f"{what}: no QP error, ib_write_bw ran to its end",
                          seen["output"])
                if steered:
                    limit = DEAD_AFTER_S + QP_TIMEOUT_S + MARGIN_S + 2 * seen["calm_s"]
                    tap.check(seen["gap_s"] < limit, f"{what}: the longest gap is {seen['gap_s'] * 1e3:.0f} ms, below "
                              f"{limit * 1e3:.0f}", seen)
                    tap.check(any(seen["failovers"]), f"{what}: and an event says so", seen)
                else:
                    tap.check(seen["gap_s"] > DEAD_S - QP_TIMEOUT_S,
                              f"{what}: stands still for {seen['gap_s'] * 1e3:.0f} ms", seen)
    finally:
        bench.each(cleanup.remove_quietly)
        daemon.start(bench.GUESTS)
