# SPDX-License-Identifier: BSD-2-Clause
"""Source ports that change all the time under real queue pairs: what the receiver's ICRC check says.

soft-RoCE drops a packet with a wrong ICRC without a word and counts nothing. What its UDP socket took
and it did not is what it dropped.
"""
import concurrent.futures
import json
import os
import shutil

import events
from emulation import channel, daemon, perftest, state

from . import bench

KINDS = (("ib_write_bw", "v4"), ("ib_send_bw", "v6"), ("ib_read_bw", "v4"))
SIZE, COUNT = 65536, 200
STOP_FILE = "/run/escapement/mover.stop"
STALE_SECONDS = 15  # without valid packets perftest would wait for ever
SNMP = "cat /proc/net/snmp /proc/net/snmp6"


def datagrams(name):
    """UDP datagrams, IPv4 and IPv6, that a guest's sockets took."""
    text = channel.read(name, ["sh", "-c", SNMP])
    udp = [line.split() for line in text.splitlines() if line.startswith("Udp: ")]
    four = int(udp[1][udp[0].index("InDatagrams")])
    six = next(int(line.split()[1]) for line in text.splitlines()
               if line.startswith("Udp6InDatagrams"))
    return four + six


def witnesses():
    rxe = bench.wait_still()
    return {name: (datagrams(name), rxe[name]["rcvd_pkts"]) for name in bench.GUESTS}


def dropped(before, after):
    """{guest: (datagrams taken, those that soft-RoCE dropped)}."""
    return {name: (after[name][0] - before[name][0],
                   after[name][0] - before[name][0] - after[name][1] + before[name][1])
            for name in bench.GUESTS}


def move(name):
    """The mover in a guest, until it is stopped: (orders, refusals)."""
    result = channel.run(name, ["/usr/bin/python3", f"{state.guest(name)['share']}/guest/mover",
                                STOP_FILE], 300)
    if result.rc:
        raise RuntimeError(f"mover in {name}: {result.err}")
    return json.loads(result.out)


def run_moving(tool, gid, seconds):
    """perftest while both guests move all that they send: (its result, orders, drops)."""
    bench.each(lambda name: channel.read(name, ["rm", "-f", STOP_FILE]))
    before = witnesses()
    with concurrent.futures.ThreadPoolExecutor(len(bench.GUESTS)) as pool:
        movers = [pool.submit(move, name) for name in bench.GUESTS]
        try:
            result = perftest.run(bench.CLIENT, bench.SERVER, tool, qps=2, gid=gid,
                                  extra=["-s", str(SIZE), "-n", str(COUNT)], seconds=seconds)
        finally:
            bench.each(lambda name: channel.read(name, ["touch", STOP_FILE]))
        orders = [mover.result() for mover in movers]
    return result, orders, dropped(before, witnesses())


def switches(name):
    """Changes of path that took effect, by the daemon's own events."""
    return len(events.parse(channel.read(name, ["escapement", "-j", "events"]), "path_switched"))


def mode(word):
    bench.each(lambda name: channel.read(name, ["escapement", "mode", word]))


def start_with(program):
    """The daemon anew in both guests, from another file of the build."""
    daemon.stop(bench.GUESTS)
    for name in bench.GUESTS:
        target = os.path.join(state.guest(name)["share"], "bin", "escapementd")
        shutil.copy(os.path.join(state.BUILD, program), target + ".new")
        os.rename(target + ".new", target)
        daemon.control(name, "start")


def test_steer(tap, folder):
    """ib_write_bw, ib_send_bw and ib_read_bw while both ends change their ports; and without the ICRC."""
    mode("steer")
    try:
        for tool, gid in KINDS:
            label = f"steer {tool} over IP{gid}"
            moved = [switches(name) for name in bench.GUESTS]
            result, orders, drops = run_moving(tool, gid, 200)
            moved = [switches(name) - before for name, before in zip(bench.GUESTS, moved)]
            tap.check(result["good"], f"{label}: ran to its end",
                      result["client_output"] + result["server_output"])
            tap.check(all(count > 0 for count in moved) and
                      not any(order["refusals"] for order in orders),
                      f"{label}: the paths changed {moved[0]} and {moved[1]} times, as was seen",
                      orders)
            tap.check(all(taken > 0 and lost == 0 for taken, lost in drops.values()),
                      f"{label}: no packet with a wrong ICRC of "
                      f"{' and '.join(str(taken) for taken, _ in drops.values())}", drops)
        start_with("tests/tools/escapementd-stale")
        mode("steer")
        result, _, drops = run_moving(*KINDS[0], STALE_SECONDS)
        tap.check(any(lost > 0 for _, lost in drops.values()),
                  f"without the patch the same shows: {drops} (taken, dropped); perftest "
                  f"{'ended' if result['good'] else 'did not end'}", drops)
    finally:
        start_with("escapementd")
