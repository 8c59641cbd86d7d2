# SPDX-License-Identifier: BSD-2-Clause
"""4,096-byte RoCE packets on jumbo frames: native multi-buffer XDP on virtio-net, before Linux 6.3 generic XDP."""
import labtest
from emulation import channel

from . import bench, cleanup, counts

JUMBO_MTU = 4200
RDMA_MTU = 4096
KINDS = (("RC write", "v4"), ("RC read", "v6"))


def set_mtu(mtu):
    bench.each(lambda name: channel.read(name, ["ip", "link", "set", "eth0", "mtu", str(mtu)]))


def check_native(tap, name):
    """Native XDP of a driver that gives it one buffer, by configuration: what a larger MTU loses is said."""
    def note():
        return bench.interface(name).get("attach_note", "")

    cleanup.make_fresh([name], options={"attach": "native"})
    tap.equal((bench.interface(name)["attach"], note()), ("native", ""), f"jumbo: attach: native on {name}")
    for mtu in (JUMBO_MTU, cleanup.MTU):
        channel.read(name, ["ip", "link", "set", "eth0", "mtu", str(mtu)])
        labtest.wait_for(lambda: bool(note()) == (mtu == JUMBO_MTU), 10)
        tap.check(("drops every frame" in note()) == (mtu == JUMBO_MTU), f"jumbo: its note at an MTU of {mtu}", note())


def test_jumbo(tap, folder):
    """The MTU changes while we are attached; counts stay exact."""
    cleanup.make_ready()
    set_mtu(JUMBO_MTU)
    try:
        for name in bench.GUESTS:
            port = bench.interface(name)
            tap.equal((port["attach"], port["mtu"]), (bench.ATTACH, JUMBO_MTU),
                      f"jumbo: XDP {bench.ATTACH} at an MTU of {JUMBO_MTU} on {name}")
        for kind, gid in KINDS:
            label = f"jumbo {kind} over IP{gid}"
            seen = counts.drive(folder, kind, gid)
            tap.check(seen.result["good"], f"{label}: perftest ran to its end",
                      seen.result["client_output"] + seen.result["server_output"])
            bench.check_exact(tap, label, seen, counts.VERSIONS[gid])
            counts.check_messages(tap, label, kind, seen)
            counts.check_clean(tap, label, seen)
            sender = counts.TRAFFIC[kind][-1]
            packets = bench.total({key: entry for key, entry in seen.tx[sender].items()
                                   if entry["messages"]}, "packets")
            tap.equal(packets, counts.QPS * counts.RC_MESSAGES * counts.RC_BYTES // RDMA_MTU,
                      f"{label}: {RDMA_MTU} bytes a packet")
    finally:
        set_mtu(cleanup.MTU)
    if bench.ATTACH == "skb":
        check_native(tap, bench.SERVER)

