# SPDX-License-Identifier: BSD-2-Clause
"""Emulated machines share this host's counter. Which of them do is found from their exports, beside one that a drift of its
counter and clock makes another, while chronyd slews the clock of one. As two read one counter, it also shows how fabric times of
the two differ, with no other clock."""
import json
import os
import statistics
import subprocess
import time

import labtest
from emulation import channel, daemon, machine, state

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

POINTS = 15  # of each series, at least
# As of the oscillator of another host: what the lab adds to its counter and clock. Four guests fill two CPUs: points of 60 us.
DRIFTS_PPB = {"C": 4200}
OTHERS = [("C", "leaf3")]
# Noise of a point 2 us, and half of the CPUs in use.
PAIR_INTERVAL, TEXTFILE_INTERVAL = "5ms", "60s"
DECIDED_S = 1800
CACHE = os.environ.get("ESCAPEMENT_CACHE", "/var/cache/escapement-tests")
CHRONYD, CHRONYC = (os.path.join(CACHE, "chrony/usr", path) for path in ("sbin/chronyd", "bin/chronyc"))
# B serves its clock, and leaves it alone; A follows it: each guest calibrated its own, ppm from the other's.
NTP = {SERVER: "local stratum 8\nallow\n", CLIENT: "server {server} iburst minpoll 0 maxpoll 2 xleave\n"}
NTP_EACH = "user root\npidfile /run/chronyd.pid\nbindcmdaddress /run/chrony/chronyd.sock\ncmdport 0\ndriftfile /run/chrony/drift\n"
NTP_SYNCED_S = 90
SLEW_PPM = 100
SLEWED_S = 40
# One round at that rate, and what emulated timestamps are late by.
SLEW_ERROR_NS = SLEW_PPM * 250 + 50_000
ADJ_FREQUENCY = 2
ADJTIMEX = "import ctypes; t = (ctypes.c_long * 26)({}, 0, {}); print(ctypes.CDLL(None, use_errno=True).adjtimex(t))"


def valid(name):
    return [value for value in bench.escapement(name, "cycles").get("ahead_ns", []) if value is not None]


def start_fleet(names):
    """A mesh of all guests."""
    asked = owd.configuration() | {"members": owd.members(names), "top": f"mesh: {{ pair_interval: {PAIR_INTERVAL} }}\n"}
    cleanup.make_absent(names)
    daemon.share_programs(names)
    for name in names:
        drift = DRIFTS_PPB.get(name)
        lab = f"lab: {{ clock_offset: {drift * 1000}ns, clock_drift_ppb: {drift} }}\n" if drift else ""
        daemon.configure(name, **(asked | {"top": asked["top"] + lab}), textfile=TEXTFILE_INTERVAL)
    machine.each(lambda name: daemon.control(name, "start"), names)


def start_ntp():
    """chronyd in both guests; False if A is not synchronized to B."""
    for name in (SERVER, CLIENT):
        text = NTP_EACH + NTP[name].format(server=state.guest(SERVER)["address"])
        daemon.put_file(state.guest(name), "chrony.conf", text.encode())
        channel.read(name, ["sh", "-c", f"mkdir -p /run/chrony && chmod 750 /run/chrony && {CHRONYD} {'-x' if name == SERVER else ''} "
                            f"-f {state.guest(name)['share']}/chrony.conf"])
    return channel.run(CLIENT, [CHRONYC, "-n", "waitsync", str(NTP_SYNCED_S), "0.1", "0", "1"], NTP_SYNCED_S + 30).rc == 0


def end_ntp():
    for name in bench.GUESTS:
        channel.run(name, ["sh", "-c", "kill $(cat /run/chronyd.pid)"])


def compare(names, folder):
    """`colocation` of the exports of all guests, as on any other machine."""
    words = []
    for name in names:
        path = os.path.join(folder, f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(channel.read(name, ["escapement", "-j", "report"]))
        words += ["--from", path]
    return json.loads(subprocess.run([os.path.join(state.BUILD, "escapement"), "-j", "colocation", *words], check=True,
                                     capture_output=True, text=True).stdout)


def test_colocation(tap, folder):
    """Guests that read one counter are found, and no other, while chronyd slews the clock of one."""
    names = (*bench.GUESTS, *DRIFTS_PPB)
    result, wrong, rows = {}, set(), []
    try:
        machine.up(OTHERS, cleanup.MTU, tap.note)
        start_fleet(names)
        known = labtest.wait_for(lambda: all(len(valid(name)) >= POINTS for name in names), 300)
        if not tap.check(known, "colocation: all guests have points", {name: bench.escapement(name, "cycles") for name in names}):
            return
        changes = bench.escapement(CLIENT, "clock")["local_rate_changes"]
        tap.check(start_ntp(), "colocation: chronyd of one guest is synchronized to another's",
                  channel.run(CLIENT, [CHRONYC, "-n", "tracking"]).out)
        began = time.monotonic()

        def decided():
            nonlocal result, rows
            result = compare(names, folder)
            rows = [(row["a"], row["b"], row["verdict"], round(row["probability"], 4), round(row["rate_ppb"], 1))
                    for row in result["same"] + result["undecided"]]
            same = {(row["a"], row["b"]) for row in result["same"]}
            wrong.update(same - {bench.GUESTS})
            return same == {bench.GUESTS} and result["pairs_unknown"] == 0

        done = labtest.wait_for(decided, DECIDED_S, 60)
        noise = {row["host"]: round(row.get("noise_ns", -1)) for row in result["hosts"]}
        tap.note(f"after {time.monotonic() - began:.0f} s: noise of a point {noise} ns, pairs {rows}")
        tap.check(done, "colocation: the two guests with one counter share a machine, no other pair does", (rows, noise))
        tap.check(not wrong, "colocation: meanwhile no other pair was named", wrong)
        clock = bench.escapement(CLIENT, "clock")
        tap.check(clock["local_rate_changes"] > changes, "colocation: chronyd had slewed the clock of one", clock)
        tap.note("chronyd " + channel.run(CLIENT, [CHRONYC, "-n", "tracking"]).out.strip().replace("\n", "; "))
    finally:
        end_ntp()
        machine.down(list(DRIFTS_PPB))


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

    def counted(name, at):
        """Cycles since the first of them."""
        ahead, hz = found[name][at]
        return ((at - both[0]) * 2e9 + ahead - found[name][both[0]][0]) * hz

    # References of guests are up to 0.1% apart, and so far from the counter: a difference of rates is off by their product, 1 ppm.
    return [(counted(CLIENT, at) - counted(SERVER, at)) / found[CLIENT][at][1] for at in both]


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
