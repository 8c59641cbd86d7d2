# SPDX-License-Identifier: BSD-2-Clause
"""A foreign XDP program and foreign clsact filters are there, working: before, during, after."""
import json
import os
import shutil

import events
import labtest
from emulation import channel, daemon, state

from . import bench, cleanup, counts

OBJECT = os.path.join(state.BUILD, "tests/tools/foreign.bpf.o")
FOREIGN_XDP, FOREIGN_TC = 0, 1  # indexes of the program's count
GUEST = bench.SERVER
# (settings, priority of the foreign XDP program, whether it runs before ours, which has 10)
SETTINGS = (({"tc": "tcx"}, 50, False), ({"tc": "clsact"}, 5, True))


def attach_foreign(guest_object, priority):
    """Through libxdp and through clsact, as others do it."""
    for command in (f"xdp-loader load -m native -P {priority} -n foreign_xdp eth0 {guest_object}",
                    "tc qdisc add dev eth0 clsact",
                    f"tc filter add dev eth0 ingress prio 50 bpf da obj {guest_object} sec tc",
                    f"tc filter add dev eth0 egress prio 50 bpf da obj {guest_object} sec tc"):
        channel.read(GUEST, command.split())


def detach_foreign():
    for command in ("tc qdisc del dev eth0 clsact", "xdp-loader unload eth0 --all"):
        channel.run(GUEST, command.split())


def bpftool(*words):
    return json.loads(channel.read(GUEST, ["bpftool", "-j", *words]))


def foreign_counts():
    """[packets the XDP program saw, packets the two tc filters saw]"""
    found = []
    programs = bpftool("prog", "show")
    for name, which in (("foreign_xdp", FOREIGN_XDP), ("foreign_tc", FOREIGN_TC)):
        maps = {number for program in programs if program.get("name") == name
                for number in program["map_ids"]}
        found.append(sum(entry["formatted"]["value"] for number in maps
                         for entry in bpftool("map", "dump", "id", str(number))
                         if entry["formatted"]["key"] == which))
    return found


def xdp_programs():
    """Names in the dispatcher by priority, as xdp-loader shows them; ids come and go."""
    rows = channel.read(GUEST, ["xdp-loader", "status", "eth0"]).splitlines()
    return [row.split()[2] for row in rows if row.strip().startswith("=>")]


def others_network():
    """The interface as `tc` and xdp-loader show it, without the dispatcher's own id."""
    shown = channel.read(GUEST, ["sh", "-c", "tc qdisc show dev eth0 && tc filter show dev eth0 "
                                 "ingress && tc filter show dev eth0 egress && ethtool -k eth0"])
    return shown + "\n".join(xdp_programs())


def check_works(tap, label, folder):
    """RoCEv2 through both: the foreign programs see at least what the capture sees."""
    before = foreign_counts()
    seen = counts.drive(folder, "RC write", "v4")
    grown = [new - old for new, old in zip(foreign_counts(), before)]
    received = sum(count.packets for count in
                bench.wire_counts(seen, bench.other(GUEST), 4).values())
    both = seen.capture["packets"]
    tap.check(received and grown[0] >= received, f"{label}: the foreign XDP program counts",
              f"{grown[0]} of {received} packets")
    tap.check(grown[1] >= both, f"{label}: the foreign tc filters count",
              f"{grown[1]} of {both} packets")
    return seen


def test_coexistence(tap, folder):
    """Foreign programs attached first; the daemon comes, counts exactly, and goes."""
    cleanup.make_absent()
    share = state.guest(GUEST)["share"]
    shutil.copy(OBJECT, share)
    empty = bench.network(GUEST)
    for settings, priority, ahead in SETTINGS:
        if settings["tc"] not in bench.TC:
            tap.skip("coexistence (tc tcx)", "tcx came with Linux 6.6")
            continue
        attach_foreign(os.path.join(share, os.path.basename(OBJECT)), priority)
        try:
            before = others_network()
            tap.equal(xdp_programs(), ["foreign_xdp"],
                      f"coexistence: a foreign program of priority {priority} was there first")
            live_together(tap, folder, settings, before, ahead)
        finally:
            cleanup.make_absent([GUEST])
            detach_foreign()
    after = bench.network(GUEST)
    tap.check(after == empty, "coexistence: with all gone the interface is as at the start",
              bench.changed(empty, after))


def before_ours():
    return [one["name"] for one in bench.interface(GUEST).get("programs_before", [])
            if one["hook"] == "xdp"]


def check_order(tap, label, ahead):
    """The foreign program of the dispatcher is reported when it runs before ours."""
    order = sorted(("esc_xdp_in", "foreign_xdp"), reverse=ahead)
    tap.equal(xdp_programs(), order, f"{label}: both are in the dispatcher, by priority")
    wanted = order[:order.index("esc_xdp_in")]
    labtest.wait_for(lambda: before_ours() == wanted, 20)
    reported = events.parse(channel.read(GUEST, ["escapement", "-j", "events"]), "programs_before")
    named = any(one["name"] == "foreign_xdp" for event in reported for one in event["seen"]["programs"])
    tap.check(before_ours() == wanted and named == ahead,
              f"{label}: status and an event name the programs before ours: {wanted}",
              (before_ours(), reported))


def live_together(tap, folder, settings, before, ahead):
    label = f"coexistence (tc {settings['tc']})"
    bench.each(lambda name: daemon.start([name], options=settings) if name == GUEST
               else cleanup.is_ready(name) or daemon.start([name]))
    port = bench.interface(GUEST)
    tap.equal((port["attach"], port["attach_via"], port["tc"]),
              ("native", "dispatcher", settings["tc"]), f"{label}: status shows how it is attached")
    check_order(tap, label, ahead)
    seen = check_works(tap, f"{label}, during", folder)
    bench.check_exact(tap, f"{label}, during", seen, 4)
    channel.read(GUEST, ["escapement", "off"])
    after = others_network()
    tap.check(after == before, f"{label}: off leaves the others as they were",
              bench.changed(before, after))
    ping = foreign_counts()
    channel.read(GUEST, ["ping", "-c", "3", "-i", "0.1", state.guest(GUEST)["gateway"]])
    tap.check(all(new > old for new, old in zip(foreign_counts(), ping)),
              f"{label}: the others count after off")
    cleanup.remove([GUEST])
    after = others_network()
    tap.check(after == before, f"{label}: removal leaves the others as they were",
              bench.changed(before, after))
    ping = foreign_counts()
    channel.read(GUEST, ["ping", "-c", "3", "-i", "0.1", state.guest(GUEST)["gateway"]])
    tap.check(all(new > old for new, old in zip(foreign_counts(), ping)),
              f"{label}: the others count when the daemon is gone")
