# SPDX-License-Identifier: BSD-2-Clause
"""`escapement off`, and removal without a daemon, leave the interface as it was."""
from emulation import channel, daemon
from emulation.errors import VmError

from . import bench

PINS = "/sys/fs/bpf/escapement"
MTU = 1500
SETTINGS = ({}, {"tc": "clsact"})


def check_clean(tap, label, before):
    for name in bench.GUESTS:
        after = bench.network(name)
        tap.check(after == before[name], f"{label}: {name}'s interface is as it was before",
                  bench.changed(before[name], after))


def features(name):
    """{offload: state} of a guest's interface."""
    lines = channel.read(name, ["ethtool", "-k", "eth0"]).splitlines()[1:]
    return {key.strip(): state.strip() for key, _, state in (line.partition(":") for line in lines)}


def check_offloads_told(tap, label, name, free):
    """`status` names each offload that attaching took, and none that it did not."""
    now, note = features(name), bench.interface(name).get("offload_note", "")
    taken = [key for key in free if now[key] != free[key]]
    told = [key for key in free if key in note]
    tap.check(all(key in told for key in taken) and bool(note) == bool(taken),
              f"{label}: status on {name} tells the offloads that attaching took: "
              f"{', '.join(taken) or 'none'}", f"taken: {taken}\nstatus says: '{note}'")


def test_off(tap, folder):
    """XDP, tc, qdiscs, offloads and link settings before and after, both kinds of tc."""
    remove()
    before = dict(zip(bench.GUESTS, bench.each(bench.network)))
    free = dict(zip(bench.GUESTS, bench.each(features)))
    for settings in SETTINGS:
        label = f"off (tc {settings.get('tc', 'auto')})"
        daemon.start(bench.GUESTS, settings)
        attached = {name: bench.interface(name)["attach"] for name in bench.GUESTS}
        tap.equal(set(attached.values()), {"native"}, f"{label}: native XDP was attached")
        for name in bench.GUESTS:
            check_offloads_told(tap, label, name, free[name])
        bench.each(lambda name: channel.read(name, ["escapement", "off"]))
        check_clean(tap, f"{label}, the daemon runs", before)
        bench.each(lambda name: channel.read(name, ["escapement", "mode", "observe"]))
        attached = {name: bench.interface(name)["attach"] for name in bench.GUESTS}
        tap.equal(set(attached.values()), {"native"}, f"{label}: `mode observe` attaches again")
        remove()
        check_clean(tap, f"{label}, no daemon", before)
        left = [channel.run(name, ["ls", PINS]).out for name in bench.GUESTS]
        tap.check(not any(left), f"{label}, no daemon: no pins are left", left)
    daemon.start(bench.GUESTS)


def remove():
    """Ends the daemons; then `off` detaches what they left and removes the pins."""
    daemon.stop(bench.GUESTS)
    bench.each(lambda name: channel.read(name, ["escapement", "off"]))
    bench.each(lambda name: channel.read(name, ["rm", "-f", "/run/escapement/off"]))


def remove_quietly(name):
    """The same in one guest, whatever has already gone."""
    try:
        daemon.stop([name])
    except VmError:
        pass
    channel.run(name, ["escapement", "off"])
    channel.run(name, ["rm", "-rf", "/run/escapement/off", PINS])


def is_ready(name):
    try:
        port = bench.interface(name)
    except VmError:
        return False
    return port["attach"] == "native" and port["mtu"] == MTU


def make_ready():
    """Both daemons run and are attached, whatever the test before has left."""
    if not all(bench.each(is_ready)):
        bench.each(remove_quietly)
        daemon.start(bench.GUESTS)
