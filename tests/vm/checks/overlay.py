# SPDX-License-Identifier: BSD-2-Clause
"""soft-RoCE on a device that puts its packets into others: VXLAN, Geneve, GRE; and on ones that are stacked on others: VLAN, bond."""
import concurrent.futures
import contextlib
import threading
import time

import labtest
from emulation import channel, perftest

from . import bench, cleanup
from .bench import CLIENT, SERVER

RDMA = "rxe1"
ADDRESSES = {CLIENT: "10.99.0.1", SERVER: "10.99.0.2"}
KINDS = {"VXLAN": ("vxlan", "id", "7", "dstport", "4789"), "Geneve": ("geneve", "id", "7"), "GRE": ("gretap",)}
PORTS = {"VXLAN": "4789", "Geneve": "6081"}  # what has a UDP header of its own
VLAN = ("link", "tun0", "name", "vlan7", "type", "vlan", "id", "7")
# What a slave that is not active receives is taken, too: the ends fail over one after the other.
BOND = ("bond0", "type", "bond", "mode", "active-backup", "miimon", "100", "all_slaves_active", "1")
ACTIVE = "/sys/class/net/bond0/bonding/active_slave"
MTU = 1450
QPS, SIZE, MESSAGES = 2, 16384, 40
MOVES, FAILOVERS, PATIENCE_S = 25, 10, 60


def link(device, *words):
    return ["ip", "link", "add", device, *words]


def tunnel(device, kind, name, *more):
    local, remote = (str(perftest.addresses(guest)[4]) for guest in (name, bench.other(name)))
    ends = ["remote", remote] + ([] if kind[0] == "geneve" else ["local", local])
    return link(device, "type", *kind, *ends, *more)


def links_of(kind, name):
    """Commands, the device that RoCE is seen on, and that of the soft-RoCE device. It takes no VLAN, and on a bond it loses its GIDs
    with the active link, and with them its queue pairs."""
    if kind == "VLAN":
        return [tunnel("tun0", KINDS["GRE"], name), ["ip", "link", "set", "tun0", "mtu", str(MTU), "up"],
                ["ip", "link", "add", *VLAN]], "vlan7", "tun0"
    if kind == "bond":
        slaves = [tunnel(device, KINDS["GRE"], name, "key", key) for device, key in (("tun0", "1"), ("tun1", "2"))]
        return [*slaves, link(*BOND), *(["ip", "link", "set", words[3], "master", "bond0"] for words in slaves),
                ["ip", "link", "set", "bond0", "mtu", str(MTU), "up"], link("br0", "type", "bridge"),
                ["ip", "link", "set", "bond0", "master", "br0"]], "bond0", "br0"
    return [tunnel("tun0", KINDS[kind], name)], "tun0", "tun0"


def make_links(kind):
    """Between the guests, with a soft-RoCE device on them; the device that RoCE is seen on."""
    def make(name):
        commands, device, own = links_of(kind, name)
        top = device if kind == "VLAN" else own
        for argv in (*commands, ["ip", "address", "add", ADDRESSES[name] + "/24", "dev", top],
                     ["ip", "link", "set", top, "mtu", str(MTU), "up"],
                     ["rdma", "link", "add", RDMA, "type", "rxe", "netdev", own]):
            channel.read(name, argv)
        return device
    return bench.each(make)[0]


def remove_links(name):
    channel.run(name, ["sh", "-c", f"rdma link delete {RDMA}; for device in vlan7 br0 bond0 tun1 tun0; do ip link delete $device; done"])


def drive(tool, *extra, leave=None, seconds=120):
    return perftest.run(CLIENT, SERVER, tool, qps=QPS, device=RDMA, address=ADDRESSES.get, extra=extra, leave=leave,
                        seconds=seconds)


def rows(name, direction, interface=None):
    """{destination, QP number: row} of what has the tunnel's addresses."""
    return {(row["dst"], row["dest_qpn"]): row for row in bench.escapement(name, "qp")["qps"]
            if row["direction"] == direction and row["dst"] in ADDRESSES.values() and interface in (None, row["interface"])}


def counts(found, before):
    """{queue pair: (packets, bytes)} since then."""
    def since(key, field):
        return found[key][field] - before.get(key, {}).get(field, 0)
    return {key: (since(key, "packets"), since(key, "bytes")) for key in found if since(key, "packets")}


def check_counts(tap, label, device, before, rxe, lossless=True):
    """Both ends have counted the same, queue pair by queue pair, each once, and as soft-RoCE, which takes what has the right ICRC."""
    now = bench.wait_still(RDMA)
    for name in bench.GUESTS:
        tx, rx = (counts(rows(guest, direction), before[guest, direction])
                  for guest, direction in ((name, "tx"), (bench.other(name), "rx")))
        tap.check(len(tx) == len(rx) == QPS and (tx == rx or not lossless),
                  f"{label}: what leaves {name} {'is what arrives' if lossless else 'and what arrives has'}"
                  f"{', each queue pair once' if lossless else ' a row for each queue pair'}", f"{tx}\n{rx}")
        moved = {key: now[name][key] - rxe[name][key] for key in ("sent_pkts", "rcvd_pkts")}
        ours = (sum(packets for packets, _ in tx.values()), sum(packets for packets, _ in counts(
            rows(name, "rx"), before[name, "rx"]).values()))
        tap.equal(ours, tuple(moved.values()), f"{label}: {name}'s sums are soft-RoCE's own: no wrong ICRC")
        outside = {row["interface"] for row in rows(name, "tx").values()}
        tap.equal(outside, {device}, f"{label}: {name} has counted it on {device} alone")


def outer_ports(kind):
    """Source ports of packets that leave the client's NIC now."""
    text = channel.run(CLIENT, ["timeout", "20", "tcpdump", "-nn", "-c", "12", "-Q", "out", "-i", "eth0", "udp", "dst", "port",
                                PORTS[kind]]).out
    return {line.split()[2].rsplit(".", 1)[1] for line in text.splitlines() if " > " in line and line.split()[1] == "IP"}


def arrives(number, sport):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if rows(SERVER, "rx")[ADDRESSES[SERVER], number]["sport"] == sport:
            return True
    return False


def move(kind, before):
    """(moves that arrived, outer source ports) of one of the queue pairs that send now."""
    deadline = time.monotonic() + PATIENCE_S
    while not (moving := counts(rows(CLIENT, "tx"), before)):
        if time.monotonic() > deadline:
            raise TimeoutError("no traffic")
    number, moved, seen = min(number for _, number in moving), 0, set()
    for i in range(MOVES):
        sport = 50000 + 37 * i
        channel.read(CLIENT, ["escapement", "steer", "set", "--dst", ADDRESSES[SERVER], "--qpn", str(number), "--sport", str(sport),
                              "--force"])
        moved += arrives(number, sport)
        if kind in PORTS and i % 5 == 0:
            seen |= outer_ports(kind)
    return moved, seen


def now():
    return {(name, direction): rows(name, direction) for name in bench.GUESTS for direction in ("tx", "rx")}


@contextlib.contextmanager
def writes():
    """`ib_write_bw` meanwhile. In the end it is stopped, not ended: soft-RoCE sends what was posted, and counts no packet of a queue
    pair that is gone."""
    leave = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(drive, "ib_write_bw", "-s", str(SIZE), "-D", "1800", "--rate_limit", "1", "--rate_units", "M",
                              "--rate_limit_type", "SW", leave=leave, seconds=2000)
        try:
            yield lambda: channel.read(CLIENT, ["pkill", "-STOP", "-x", "ib_write_bw"])
        finally:
            leave.set()
            channel.run(CLIENT, ["pkill", "-KILL", "-x", "ib_write_bw"])
        running.result()


def check_kind(tap, kind, device):
    before, rxe = now(), bench.wait_still(RDMA)
    for tool in ("ib_send_bw", "ib_read_bw"):
        result = drive(tool, "-s", str(SIZE), "-n", str(MESSAGES))
        tap.check(result["good"], f"{kind}: {tool} ran to its end", result["client_output"] + result["server_output"])
        check_counts(tap, f"{kind}, {tool}", device, before, rxe)
        before, rxe = now(), bench.wait_still(RDMA)
    if kind == "bond":
        return check_failovers(tap, device, before, rxe)
    bench.each(lambda name: channel.read(name, ["escapement", "mode", "steer"]))
    with writes() as stop:
        moved, seen = move(kind, before[CLIENT, "tx"])
        stop()
        check_counts(tap, f"{kind}, ib_write_bw moved {MOVES} times", device, before, rxe)
    tap.equal(moved, MOVES, f"{kind}: every move arrives")
    if kind in PORTS:
        tap.check(len(seen) > 1, f"{kind}: the outer source port moves with it", sorted(seen))
    return None


def check_failovers(tap, device, before, rxe):
    """The link in use is lost at both ends, again and again; a packet that is lost with it was sent all the same."""
    used = []
    with writes() as stop:
        labtest.wait_for(lambda: counts(rows(SERVER, "rx"), before[SERVER, "rx"]), PATIENCE_S)
        for _ in range(FAILOVERS):
            active = channel.read(CLIENT, ["cat", ACTIVE]).strip()
            bench.each(lambda name: channel.read(name, ["ip", "link", "set", active, "down"]))
            old = rows(SERVER, "rx")
            if labtest.wait_for(lambda: counts(rows(SERVER, "rx"), old), PATIENCE_S):
                used.append(channel.read(CLIENT, ["cat", ACTIVE]).strip())
            bench.each(lambda name: channel.read(name, ["ip", "link", "set", active, "up"]))
        stop()
        check_counts(tap, f"bond, ib_write_bw, {FAILOVERS} failovers", device, before, rxe, lossless=False)
    tap.equal(used, ["tun1", "tun0"] * (FAILOVERS // 2), "bond: packets arrive after each")


def check(tap, kinds):
    try:
        for kind in kinds:
            device = make_links(kind)
            cleanup.make_ready(more=(device,))
            check_kind(tap, kind, device)
            cleanup.make_absent()
            bench.each(remove_links)
    finally:
        bench.each(remove_links)
        cleanup.make_absent()


def test_overlay(tap, folder):
    """soft-RoCE through VXLAN, Geneve and GRE: counted once, exactly, and moved 25 times without a wrong ICRC."""
    check(tap, KINDS)


def test_vlan(tap, folder):
    """The same on a VLAN's device."""
    check(tap, ("VLAN",))


def test_bond(tap, folder):
    """The same on a bond whose links fail: no count is lost or doubled."""
    check(tap, ("bond",))
