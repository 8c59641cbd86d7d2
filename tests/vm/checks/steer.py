# SPDX-License-Identifier: BSD-2-Clause
"""Source ports that change all the time under real queue pairs: what the receiver's ICRC check finds.

soft-RoCE drops a packet with a wrong ICRC and counts nothing. What its UDP socket received
and it did not count is what it dropped.
"""
import concurrent.futures
import json
import os
import shutil
import threading

from emulation import channel, daemon, perftest, state

from . import bench, cleanup

KINDS = (("ib_write_bw", "v4"), ("ib_send_bw", "v6"), ("ib_read_bw", "v4"))
SIZE, COUNT = 65536, 500
STOP_FILE = "/run/escapement/mover.stop"
STALE_SECONDS = 90  # without valid packets perftest would wait for ever: it is ended when packets were dropped
SNMP = "cat /proc/net/snmp /proc/net/snmp6"


def datagrams(name):
    """UDP datagrams, IPv4 and IPv6, that a guest's sockets took."""
    text = channel.read(name, ["sh", "-c", SNMP])
    udp = [line.split() for line in text.splitlines() if line.startswith("Udp: ")]
    four = int(udp[1][udp[0].index("InDatagrams")])
    six = next(int(line.split()[1]) for line in text.splitlines()
               if line.startswith("Udp6InDatagrams"))
    return four + six


def counters():
    rxe = bench.wait_still()
    return {name: (datagrams(name), rxe[name]["rcvd_pkts"]) for name in bench.GUESTS}


def dropped(before, after):
    """{guest: (datagrams taken, those that soft-RoCE dropped)}."""
    return {name: (after[name][0] - before[name][0],
                   after[name][0] - before[name][0] - after[name][1] + before[name][1])
            for name in bench.GUESTS}


def move(name):
    """The mover in a guest, until it is stopped: its {given, refusals}."""
    result = channel.run(name, ["/usr/bin/python3", f"{state.guest(name)['share']}/guest/mover",
                                STOP_FILE], 300)
    if result.rc:
        raise RuntimeError(f"mover in {name}: {result.err}")
    return json.loads(result.out)


def run_moving(tool, gid, seconds, until_dropped=False):
    """perftest while both guests move all that they send: (its result, those of the movers, drops)."""
    bench.each(lambda name: channel.read(name, ["rm", "-f", STOP_FILE]))
    before, leave = counters(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor(len(bench.GUESTS) + 1) as pool:
        movers = [pool.submit(move, name) for name in bench.GUESTS]
        try:
            running = pool.submit(perftest.run, bench.CLIENT, bench.SERVER, tool, qps=2, gid=gid,
                                  extra=["-s", str(SIZE), "-n", str(COUNT)], seconds=seconds, leave=leave)
            while until_dropped and not running.done() and not leave.wait(0.5):
                # Datagrams first: those counted between the two readings cannot look like drops.
                now = {name: (datagrams(name), bench.rxe_counters(name)["rcvd_pkts"]) for name in bench.GUESTS}
                if any(lost > 0 for _, lost in dropped(before, now).values()):
                    leave.set()
            result = running.result()
        finally:
            leave.set()
            bench.each(lambda name: channel.read(name, ["touch", STOP_FILE]))
        results = [mover.result() for mover in movers]
    return result, results, dropped(before, counters())


def port_changes(name):
    """{queue pair: changes of the source port of what came from it}, as the guest's own XDP program counts."""
    rows = json.loads(channel.read(name, ["escapement", "-j", "qp"]))["qps"]
    return {row["key"]: row["sport_changes"] for row in rows if row["direction"] == "rx"}


def more(before, after):
    return sum(count - before.get(key, 0) for key, count in after.items())


def set_mode(mode):
    bench.each(lambda name: channel.read(name, ["escapement", "mode", mode]))


def start_stale(name):
    """A daemon that does not update the ICRC, in one guest."""
    daemon.control(name, "stop")
    target = os.path.join(state.guest(name)["share"], "bin", "escapementd")
    shutil.copy(os.path.join(state.BUILD, "tests/tools/escapementd-stale"), target + ".new")
    os.rename(target + ".new", target)
    daemon.control(name, "start")


def test_steer(tap, folder):
    """ib_write_bw, ib_send_bw and ib_read_bw while both ends change their ports; and without the ICRC."""
    cleanup.make_ready()
    set_mode("steer")
    try:
        for tool, gid in KINDS:
            label = f"steer {tool} over IP{gid}"
            seen = [port_changes(name) for name in bench.GUESTS]
            result, results, drops = run_moving(tool, gid, 200)
            moved = [more(before, port_changes(name)) for name, before in zip(bench.GUESTS, seen)]
            tap.check(result["good"], f"{label}: ran to its end",
                      result["client_output"] + result["server_output"])
            tap.check(all(count > 0 for count in moved) and
                      not any(one["refusals"] for one in results),
                      f"{label}: the receivers saw {moved[0]} and {moved[1]} changes of a source port",
                      results)
            tap.check(all(taken > 0 and lost == 0 for taken, lost in drops.values()),
                      f"{label}: no packet with a wrong ICRC of "
                      f"{' and '.join(str(taken) for taken, _ in drops.values())}", drops)
        bench.each(start_stale)
        set_mode("steer")
        result, _, drops = run_moving(*KINDS[0], STALE_SECONDS, until_dropped=True)
        tap.check(any(lost > 0 for _, lost in drops.values()),
                  f"without the ICRC update the same counters show drops: {drops} (taken, dropped); perftest "
                  f"{'ended' if result['good'] else 'did not end'}", drops)
    finally:
        cleanup.make_absent()
