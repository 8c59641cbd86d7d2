# SPDX-License-Identifier: BSD-2-Clause
"""soft-RoCE on a device that puts its packets into others: VXLAN, Geneve, GRE."""
import concurrent.futures
import threading
import time

from emulation import channel, perftest

from . import bench, cleanup
from .bench import CLIENT, SERVER

DEVICE, RDMA = "tun0", "rxe1"
ADDRESSES = {CLIENT: "10.99.0.1", SERVER: "10.99.0.2"}
KINDS = {"VXLAN": ("vxlan", "id", "7", "dstport", "4789"), "Geneve": ("geneve", "id", "7"), "GRE": ("gretap",)}
PORTS = {"VXLAN": "4789", "Geneve": "6081"}  # what has a UDP header of its own
MTU = "1450"
QPS, SIZE, MESSAGES = 2, 16384, 40
MOVES, PATIENCE_S = 25, 60


def make_tunnel(kind):
    """Between the guests, with a soft-RoCE device on it."""
    def make(name):
        link = KINDS[kind]
        local, remote = (str(perftest.addresses(guest)[4]) for guest in (name, bench.other(name)))
        ends = ["remote", remote] + ([] if link[0] == "geneve" else ["local", local])
        for argv in (["ip", "link", "add", DEVICE, "type", *link, *ends],
                     ["ip", "address", "add", ADDRESSES[name] + "/24", "dev", DEVICE],
                     ["ip", "link", "set", DEVICE, "mtu", MTU, "up"],
                     ["rdma", "link", "add", RDMA, "type", "rxe", "netdev", DEVICE]):
            channel.read(name, argv)
    bench.each(make)


def remove_tunnel(name):
    channel.run(name, ["sh", "-c", f"rdma link delete {RDMA}; ip link delete {DEVICE}"])


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


def check_counts(tap, label, before, rxe):
    """Both ends have counted the same, queue pair by queue pair, each once, and as soft-RoCE, which takes what has the right ICRC."""
    now = bench.wait_still(RDMA)
    for name in bench.GUESTS:
        tx, rx = (counts(rows(guest, direction), before[guest, direction])
                  for guest, direction in ((name, "tx"), (bench.other(name), "rx")))
        tap.check(tx == rx and len(tx) == QPS, f"{label}: what leaves {name} is what arrives, each queue pair once", f"{tx}\n{rx}")
        moved = {key: now[name][key] - rxe[name][key] for key in ("sent_pkts", "rcvd_pkts")}
        ours = (sum(packets for packets, _ in tx.values()), sum(packets for packets, _ in counts(
            rows(name, "rx"), before[name, "rx"]).values()))
        tap.equal(ours, tuple(moved.values()), f"{label}: {name}'s sums are soft-RoCE's own: no wrong ICRC")
        outside = {row["interface"] for row in rows(name, "tx").values()}
        tap.equal(outside, {DEVICE}, f"{label}: {name} has counted it on the tunnel alone")


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


def check_kind(tap, kind):
    before, rxe = now(), bench.wait_still(RDMA)
    for tool in ("ib_send_bw", "ib_read_bw"):
        result = drive(tool, "-s", str(SIZE), "-n", str(MESSAGES))
        tap.check(result["good"], f"{kind}: {tool} ran to its end", result["client_output"] + result["server_output"])
        check_counts(tap, f"{kind}, {tool}", before, rxe)
        before, rxe = now(), bench.wait_still(RDMA)
    bench.each(lambda name: channel.read(name, ["escapement", "mode", "steer"]))
    leave = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(drive, "ib_write_bw", "-s", str(SIZE), "-D", "1800", "--rate_limit", "1", "--rate_units", "M",
                              "--rate_limit_type", "SW", leave=leave, seconds=2000)
        try:
            moved, seen = move(kind, before[CLIENT, "tx"])
            # Stopped, not ended: soft-RoCE sends what was posted. Of a queue pair that is gone it counts no packet.
            channel.read(CLIENT, ["pkill", "-STOP", "-x", "ib_write_bw"])
            check_counts(tap, f"{kind}, ib_write_bw moved {MOVES} times", before, rxe)
        finally:
            leave.set()
            channel.run(CLIENT, ["pkill", "-KILL", "-x", "ib_write_bw"])
        running.result()
    tap.equal(moved, MOVES, f"{kind}: every move arrives")
    if kind in PORTS:
        tap.check(len(seen) > 1, f"{kind}: the outer source port moves with it", sorted(seen))


def test_overlay(tap, folder):
    """soft-RoCE through VXLAN, Geneve and GRE: counted once, exactly, and moved 25 times without a wrong ICRC."""
    try:
        for kind in KINDS:
            make_tunnel(kind)
            cleanup.make_ready(more=(DEVICE,))
            check_kind(tap, kind)
            cleanup.make_absent()
            bench.each(remove_tunnel)
    finally:
        bench.each(remove_tunnel)
        cleanup.make_absent()
