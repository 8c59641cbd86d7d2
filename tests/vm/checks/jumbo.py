# SPDX-License-Identifier: BSD-2-Clause
"""4,096-byte RoCE packets on jumbo frames, native multi-buffer XDP on virtio-net."""
from emulation import channel

from . import bench, cleanup, counts

JUMBO_MTU = 4200
RDMA_MTU = 4096
KINDS = (("RC write", "v4"), ("RC read", "v6"))


def set_mtu(mtu):
    bench.each(lambda name: channel.read(name, ["ip", "link", "set", "eth0", "mtu", str(mtu)]))


def test_jumbo(tap, folder):
    """The MTU changes while we are attached; counts stay exact."""
    cleanup.make_ready()
    set_mtu(JUMBO_MTU)
    try:
        for name in bench.GUESTS:
            port = bench.interface(name)
            tap.equal((port["attach"], port["mtu"]), ("native", JUMBO_MTU),
                      f"jumbo: native XDP at an MTU of {JUMBO_MTU} on {name}")
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

