# SPDX-License-Identifier: BSD-2-Clause
"""`escapement off`, and removal without a daemon, leave the interface as it was; the daemons that a test needs."""
import contextlib

from emulation import channel, daemon, machine
from emulation.errors import VmError

from . import bench

PINS = "/sys/fs/bpf/escapement"
MTU = 1500
# For skb mode the kernel turns offloads off for good. With clsact: lab/test_coexistence.
SETTINGS = ({}, {"attach": "skb"}, {"tc": "clsact"}) if bench.FULL else ({}, {"attach": "skb"})


def check_clean(tap, label, before):
    for name in bench.GUESTS:
        after = bench.network(name)
        tap.check(after == before[name], f"{label}: {name}'s interface is as it was before",
                  bench.changed(before[name], after))


def features(name):
    """{offload: state} of a guest's interface."""
    lines = channel.read(name, ["ethtool", "-k", "eth0"]).splitlines()[1:]
    return {key.strip(): state.strip() for key, _, state in (line.partition(":") for line in lines)}


def check_offloads(tap, label, name, free):
    """`status` lists each offload that attaching turned off, and no other."""
    now, note = features(name), bench.interface(name).get("offload_note", "")
    changed = [key for key in free if now[key] != free[key]]
    listed = [key for key in free if key in note]
    tap.check(all(key in listed for key in changed) and bool(note) == bool(changed),
              f"{label}: status on {name} lists the offloads that attaching turned off: "
              f"{', '.join(changed) or 'none'}", f"turned off: {changed}\nstatus: '{note}'")


def test_off(tap, folder):
    """XDP, tc, qdiscs, offloads and link settings before and after, both kinds of tc."""
    make_absent()
    before = dict(zip(bench.GUESTS, bench.each(bench.network)))
    free = dict(zip(bench.GUESTS, bench.each(features)))
    for settings in SETTINGS:
        label = f"off ({' '.join(map(' '.join, settings.items())) or 'defaults'})"
        mode = settings.get("attach", bench.ATTACH)
        daemon.start(bench.GUESTS, options=settings)
        attached = {name: bench.interface(name)["attach"] for name in bench.GUESTS}
        tap.equal(set(attached.values()), {mode}, f"{label}: {mode} XDP was attached")
        for name in bench.GUESTS:
            check_offloads(tap, label, name, free[name])
        bench.each(lambda name: channel.read(name, ["escapement", "off"]))
        check_clean(tap, f"{label}, the daemon runs", before)
        bench.each(lambda name: channel.read(name, ["escapement", "mode", "observe"]))
        attached = {name: bench.interface(name)["attach"] for name in bench.GUESTS}
        tap.equal(set(attached.values()), {mode}, f"{label}: `mode observe` attaches again")
        remove()
        check_clean(tap, f"{label}, no daemon", before)
        left = [channel.run(name, ["ls", PINS]).out for name in bench.GUESTS]
        tap.check(not any(left), f"{label}, no daemon: no pins are left", left)


def remove(names=bench.GUESTS):
    """Ends the daemons; then `off` detaches what they left and removes the pins."""
    daemon.stop(names)
    machine.each(lambda name: channel.read(name, ["sh", "-c", "escapement off && rm -f /var/lib/escapement/off"]), names)


def remove_quietly(name):
    """The same in one guest, whatever has already gone."""
    with contextlib.suppress(VmError):
        daemon.stop([name])
    channel.run(name, ["sh", "-c", f"escapement off; rm -rf /var/lib/escapement/off {PINS}"])


def is_ready(name):
    """A daemon runs, attached as it is without options for that."""
    try:
        port = bench.interface(name)
    except VmError:
        return False
    return (port["attach"], port["tc"], port["mtu"]) == (bench.ATTACH, bench.TC[0], MTU)


def make_ready(**configuration):
    """Both daemons run, attached, with a configuration (daemon.configure()); one that runs already reloads."""
    bench.each(lambda name: daemon.reload([name], **configuration) if is_ready(name)
               else make_fresh([name], **configuration))


def make_fresh(names=bench.GUESTS, **configuration):
    """The same by a start, with empty maps."""
    make_absent(names)
    daemon.start(names, **configuration)


def make_absent(names=bench.GUESTS):
    """No daemon, no pins, whatever the test before has left."""
    machine.each(remove_quietly, names)
