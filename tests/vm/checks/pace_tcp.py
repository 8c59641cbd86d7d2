# SPDX-License-Identifier: BSD-2-Clause
"""TCP by its own delay, below fq, in the machine of paceworld."""
import json
import time

from . import bench
from .paceworld import ADDRESS, CGROUP, CLOCK_SECONDS, FOLDER, HOSTS, query, counts, hosts, must, put, shell

# TCP from a to b: connections without end, of small segments, so that two of each fit the queue.
TCP_FLOWS, TCP_PORT, TCP_SECONDS = 4, 7000, 6
FEW_DROPS = 20
TCP_SENDER = f"""import socket, threading
def endless(peer):
    while True:
        peer.sendall(bytes(65536))
server = socket.create_server(("{ADDRESS['a']}", {TCP_PORT}))
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"@")
while True:
    threading.Thread(target=endless, args=(server.accept()[0],), daemon=True).start()
"""
TCP_RECEIVER = f"""import selectors, socket, time
peers, total, end = selectors.DefaultSelector(), 0, time.monotonic() + {TCP_SECONDS}
for _ in range({TCP_FLOWS}):
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
    peer.bind(("{ADDRESS['b']}", 0))
    peer.connect(("{ADDRESS['a']}", {TCP_PORT}))
    peers.register(peer, selectors.EVENT_READ)
while time.monotonic() < end:
    total += sum(len(key.fileobj.recv(262144)) for key, _ in peers.select(0.1))
print(total)
"""


def tcp_traffic(port_name, congestion="cubic"):
    """(bytes that came, drops at the port, times that fq let a socket wait, a's `pace` meanwhile)."""
    def counted():
        waits = json.loads(must("tc -s -j qdisc show dev a0"))[0].get("throttled", 0)
        return counts()[0], waits

    put("sender", TCP_SENDER.replace("@", congestion).encode())
    must(f"echo $$ >{CGROUP}a/cgroup.procs; exec setsid python3 {FOLDER}/sender >{FOLDER}/sender.log "
         f"2>&1 </dev/null & until grep -q ':{TCP_PORT:04X} ' /proc/net/tcp; do sleep 0.1; done")
    before = counted()
    must(f"(echo 0 >{CGROUP}b/cgroup.procs; exec python3 {FOLDER}/receiver >{FOLDER}/received "
         "2>&1 </dev/null) & true")
    time.sleep(TCP_SECONDS / 2)
    shown = query("a", "pace")["tcp"]
    deadline = time.monotonic() + 30
    while not (came := must(f"cat {FOLDER}/received").strip()) and time.monotonic() < deadline:
        time.sleep(0.2)
    after = counted()
    shell(f"for pid in $(cat {CGROUP}a/cgroup.procs); do kill $pid; done; sleep 0.5")
    if not came.isdigit():
        raise RuntimeError(f"{port_name}: {came} {must(f'cat {FOLDER}/sender.log')}")
    return int(came), after[0] - before[0], after[1] - before[1], shown


def check_bbr(tap):
    """A module of this kernel: not there until it is loaded, and then limited like the others."""
    shown = query("a", "pace")["tcp"]
    tap.check("bbr" not in shown["limits"] and "modprobe tcp_bbr" in shown["reason"],
              "pace_tcp: what is not loaded is named, and what to do", shown)
    must("modprobe tcp_bbr")
    for mode in ("off", "on"):
        query("a", "pace", "tcp", mode)
    came, drops, _, shown = tcp_traffic("bbr", "bbr")
    rows = [row for row in shown["connections"] if row["sport"] == TCP_PORT]
    tap.note(f"bbr, limited: {came * 8 / TCP_SECONDS / 1e6:.1f} Mbit/s, {drops} dropped; "
             f"{shown['limits']}")
    tap.check("bbr" in shown["limits"] and len(rows) == TCP_FLOWS and
              all(row["limited"] and "bbr" in row["congestion"] for row in rows),
              "pace_tcp: loaded, bbr is limited", shown)


def test_pace_tcp(tap, folder):
    """TCP limited by its own delay on this kernel, its pacing by fq."""
    bench.need_kernel((6, 4), "wrappers of congestion controls")
    with hosts():
        query("a", "pace", "setup-fq", "a0")
        put("receiver", TCP_RECEIVER.encode())
        for host in HOSTS:
            query(host, "pace", "tcp", "on")
        deadline = time.monotonic() + CLOCK_SECONDS
        while not all(query(host, "pace")["tcp"]["clock_usable"] for host in HOSTS) \
                and time.monotonic() < deadline:
            time.sleep(0.5)
        came, drops, waits, shown = tcp_traffic("limited")
        rows = [row for row in shown["connections"] if row["sport"] == TCP_PORT]
        tap.note(f"limited: {came * 8 / TCP_SECONDS / 1e6:.1f} Mbit/s, {drops} dropped, fq let wait "
                 f"{waits} times; {shown['limits']}")
        tap.check("cubic" in shown["limits"] and len(rows) == TCP_FLOWS and
                  all(row["limited"] for row in rows), "pace_tcp: all connections are limited", shown)
        tap.check(waits > 0, "pace_tcp: fq keeps their pace")
        check_bbr(tap)
        for host in HOSTS:
            query(host, "pace", "tcp", "measure")
        plain, plain_drops, _, shown = tcp_traffic("observed")
        tap.note(f"without: {plain * 8 / TCP_SECONDS / 1e6:.1f} Mbit/s, {plain_drops} dropped")
        # A machine too slow to fill the port drops next to nothing: then limited flows must not either.
        tap.check(4 * drops < max(plain_drops, FEW_DROPS), f"pace_tcp: limited, {drops} are dropped, less than a "
                  f"quarter of {plain_drops} or of {FEW_DROPS}")
        tap.check(2 * came > plain, "pace_tcp: and more than half as much comes through", (came, plain))
    shell("modprobe -r tcp_bbr")  # a run more begins without it
