# SPDX-License-Identifier: BSD-2-Clause
"""ib_write_bw between the machines with a steering rule in force, and what it lost: the traffic under a fault."""
import concurrent.futures
import json
import time

import events
from emulation import channel, perftest

from . import bench
from .bench import CLIENT, SERVER

LOAD = ("-s", "16384", "--rate_limit", "1", "--rate_units", "M", "--rate_limit_type", "SW")
SECONDS = 60
ROUTINE = {"attached", "daemon_started", "mode_changed", "programs_before"}  # of each start


class RuledFlow:
    """@messages of 16 KiB, some of them in a second, from the client, which is in mode steer afterwards."""

    def __init__(self, messages):
        self.before = {name: bench.rxe_counters(name) for name in bench.GUESTS}
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.running = self.pool.submit(perftest.run, CLIENT, SERVER, "ib_write_bw", qps=1, gid="v4",
                                        extra=(*LOAD, "-n", str(messages)), nice=19)
        self.newest_id = newest_id(CLIENT)

    def __enter__(self):
        channel.read(CLIENT, ["escapement", "mode", "steer"])
        row = self.row()
        self.key = row["dest_qpn"]
        channel.read(CLIENT, ["escapement", "steer", "set", "--dst", row["dst"], "--qpn", str(row["dest_qpn"]),
                              "--sport", str(row["sport"] ^ 1), "--force"])
        return self

    def __exit__(self, *_):
        self.running.result()
        self.pool.shutdown()

    def row(self):
        """The queue pair that the client sends on."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            rows = [row for row in bench.escapement(CLIENT, "qp")["qps"] if row["direction"] == "tx"
                    and row["packets"] > 100 and row.get("active", True)]
            if rows:
                return rows[-1]
            time.sleep(0.2)
        raise TimeoutError("no traffic")

    def events(self):
        """Of the client since the flow began: its file has those of earlier tests, too."""
        return behind(all_events(CLIENT), self.newest_id)

    def rule_lapsed(self):
        return "lapsed" in [event.get("done", {}).get("reason") for event in self.events()]

    def end(self, tap, name):
        """(packets lost, sent), and checks that nothing was lost and the rule stayed in force."""
        result = self.running.result()
        after = {guest: bench.rxe_counters(guest) for guest in bench.GUESTS}
        lost = {guest: {key: after[guest][key] - self.before[guest][key] for key in bench.REPAIRS
                        if after[guest][key] != self.before[guest][key]} for guest in bench.GUESTS}
        sent = max(row["packets"] for row in bench.escapement(CLIENT, "qp")["qps"]
                   if row["direction"] == "tx" and row["dest_qpn"] == self.key)
        tap.check(result["good"], f"{name}: the traffic ran to its end", result["client_output"] + result["server_output"])
        tap.equal(lost, {guest: {} for guest in bench.GUESTS}, f"{name}: no packet was lost or sent again")
        tap.check(not self.rule_lapsed(), f"{name}: no rule lapsed", self.events())
        return sum(sum(counts.values()) for counts in lost.values()), sent


def all_events(name):
    return events.parse(channel.read(name, ["escapement", "-j", "events"]))


def behind(found, after_id):
    """Those of @found behind the one with that id, or all with None."""
    ids = [event["id"] for event in found]
    return found[ids.index(after_id) + 1 if after_id else 0:]


def kinds(name, after_id):
    """Kinds of events that tell of a fault, of those behind the one with that id, or of all with None."""
    found = behind(all_events(name), after_id)
    return sorted({event["kind"] for event in found if event["severity"] != "info"} - ROUTINE)


def newest_id(name):
    return json.loads(channel.read(name, ["escapement", "-j", "events"]).splitlines()[-1])["id"]
