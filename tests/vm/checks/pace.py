# SPDX-License-Identifier: BSD-2-Clause
"""Pacing under real queue pairs, fq and a shallow queue, all in one machine.

Two hosts in one kernel, so with one clock: each a soft-RoCE device and a daemon of its own, between
them a network namespace with a slow port. Two machines' clocks are too far apart when these are busy.
"""
import base64
import json
import time

from emulation import channel

from . import bench

GUEST = bench.CLIENT
FOLDER = "/run/escapement-pace"
HOSTS = ("a", "b")
ADDRESS = {"a": "10.77.1.2", "b": "10.77.2.2"}
GATEWAY = {"a": "10.77.1.1", "b": "10.77.2.1"}
KEY = bytes(range(16))
# The port: 20 Mbit/s with 24 ms of queue; four windows of soft-RoCE are five times as much.
RATE, LIMIT_BYTES, THRESHOLD = "20mbit", 60000, "8ms"
QPS, MESSAGES, MESSAGE_BYTES, MTU = 4, 15, 65536, 512
PACKETS = QPS * MESSAGES * MESSAGE_BYTES // MTU
RUN_SECONDS, START_SECONDS, CLOCK_SECONDS = 150, 180, 60
SILENT_SECONDS = 2.5  # after which a daemon that is stopped holds nothing
CONFIGURATION = """host: {host}
interfaces: [{{ name: {host}0 }}]
members: {folder}/members.json
key_file: {folder}/key
pin_root: /sys/fs/bpf/pace-{host}
socket: {folder}/{host}.sock
kill_file: {folder}/{host}.off
mesh: {{ pair_interval: 10ms, pair_spacing: 20us }}
clock: {{ window: 5s }}
pace: {{ threshold: {threshold}, line: 20Mbit, hold_max: 500ms,
        tcp: {{ mode: off, cgroup: {cgroup}, threshold: {threshold} }} }}
"""
CGROUP = "/sys/fs/cgroup/pace-"
# TCP from a to b: connections without end, of small segments, so that two of each fit the queue.
TCP_FLOWS, TCP_PORT, TCP_SECONDS = 4, 7000, 6
TCP_SENDER = f"""import socket, threading
def endless(peer):
    while True:
        peer.sendall(bytes(65536))
server = socket.create_server(("{ADDRESS['a']}", {TCP_PORT}))
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
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
# Packets between the two addresses of this kernel go by the wire and not by lo.
BUILD = """set -e
modprobe sch_tbf
ip netns add pacenet
{links}
ip netns exec pacenet sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.accept_local=1
ip rule add pref 100 lookup local
ip rule del pref 0
ip rule add pref 10 from 10.77.1.2 to 10.77.2.2 lookup 101
ip rule add pref 11 from 10.77.2.2 to 10.77.1.2 lookup 102
ip netns exec pacenet tc qdisc add dev b1 root tbf rate {rate} burst 9200 limit {limit}
"""
LINK = """ip link add {h}0 mtu 9000 type veth peer name {h}1 mtu 9000 netns pacenet
ip netns exec pacenet sh -c 'ethtool -K {h}1 gro on; ip link set {h}1 up; ip addr add {gateway}/24 dev {h}1
echo 0 >/proc/sys/net/ipv4/conf/{h}1/rp_filter'
ip link set {h}0 up
ip addr add {address}/24 dev {h}0
echo 0 >/proc/sys/net/ipv4/conf/{h}0/rp_filter
ip rule add pref 5 iif {h}0 lookup local
ip route add default via {gateway} dev {h}0 table {table}
ip neigh replace {gateway} lladdr $(ip netns exec pacenet cat /sys/class/net/{h}1/address) dev {h}0
ip netns exec pacenet ip neigh replace {address} lladdr $(cat /sys/class/net/{h}0/address) dev {h}1
rdma link add rx{h} type rxe netdev {h}0
"""
TEAR_DOWN = """for file in {folder}/*.pid; do [ -f "$file" ] && kill -CONT $(cat $file) && kill $(cat $file); done
sleep 1
for h in a b; do
	escapementd --remove -c {folder}/$h.yaml
	rdma link del rx$h
	for pid in $(cat /sys/fs/cgroup/pace-$h/cgroup.procs); do kill $pid; done
	rmdir /sys/fs/cgroup/pace-$h
	ip link del ${{h}}0
done
ip netns del pacenet
ip rule add pref 0 lookup local
for pref in 5 5 10 11 100; do ip rule del pref $pref; done
ip route flush table 101; ip route flush table 102
rm -rf {folder}
"""


def shell(text, seconds=60):
    return channel.run(GUEST, ["sh", "-c", text], seconds)


def must(text, seconds=60):
    result = shell(text, seconds)
    if result.rc:
        raise RuntimeError(f"{text[:200]}: {result.err or result.out}")
    return result.out


def put(name, data):
    must(f"echo {base64.b64encode(data).decode()} | base64 -d >{FOLDER}/{name}")


def escapement(host, *words):
    return channel.run(GUEST, ["escapement", "-j", "--socket", f"{FOLDER}/{host}.sock", *words])


def asked(host, *words):
    result = escapement(host, *words)
    if result.rc:
        raise RuntimeError(f"escapement {' '.join(words)}: {result.err}")
    return json.loads(result.out)


def set_up():
    links = "".join(LINK.format(h=host, gateway=GATEWAY[host], address=ADDRESS[host], table=101 + i)
                    for i, host in enumerate(HOSTS))
    must(BUILD.format(links=links, rate=RATE, limit=LIMIT_BYTES))
    must(f"mkdir -p {FOLDER} {CGROUP}a {CGROUP}b")
    put("members.json", json.dumps([{"targets": [ADDRESS[host]], "labels": {"host": host}}
                                    for host in HOSTS]).encode())
    put("key", KEY)
    must(f"chmod 600 {FOLDER}/key")
    for host in HOSTS:
        put(f"{host}.yaml", CONFIGURATION.format(host=host, folder=FOLDER,
                                                 threshold=THRESHOLD,
                                                 cgroup=CGROUP + host).encode())
        must(f"cd {FOLDER}; setsid escapementd --foreground -c {host}.yaml >{host}.log 2>&1 "
             f"</dev/null & echo $! >{FOLDER}/{host}.pid")
    deadline = time.monotonic() + START_SECONDS
    while any(escapement(host, "status").rc for host in HOSTS):
        if time.monotonic() > deadline:
            raise TimeoutError(must(f"tail -n 3 {FOLDER}/*.log"))
        time.sleep(1)


def wait_paced():
    """Pacing that is on waits for a clock that is good enough."""
    deadline = time.monotonic() + CLOCK_SECONDS
    while not asked("a", "pace")["clock"]["good"] and time.monotonic() < deadline:
        time.sleep(0.5)
    return asked("a", "pace")


def counts():
    qdisc = json.loads(must("ip netns exec pacenet tc -s -j qdisc show dev b1"))[0]
    sent = int(must("cat /sys/class/infiniband/rxa/ports/1/hw_counters/sent_pkts"))
    return qdisc["drops"], sent


def tool(device, port, messages, target=""):
    return (f"nice -n 19 ib_write_bw -d {device} -x 1 -p {port} -F -q {QPS} -s {MESSAGE_BYTES} "
            f"-n {messages} -m {MTU} -u 18 -t 16 {target}")


def traffic(port, messages=MESSAGES):
    """ib_write_bw from a to b: (its result, packets dropped, packets sent again, seconds)."""
    before, begun = counts(), time.monotonic()
    result = shell(f"{tool('rxb', port, messages)} >{FOLDER}/server 2>&1 & "
                   f"until grep -q ':{port:04X} ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
                   f"{tool('rxa', port, messages, '127.0.0.1')}", RUN_SECONDS)
    took = time.monotonic() - begun
    time.sleep(1)
    after = counts()
    return result, after[0] - before[0], after[1] - before[1] - PACKETS, took


def held():
    """(packets held, packets of paced queue pairs) so far, from the pinned map."""
    entries = json.loads(must("bpftool -j map dump pinned /sys/fs/bpf/pace-a/qp_pace"))
    values = [entry["formatted"]["value"] for entry in entries]
    return sum(value["held"] for value in values), sum(value["packets"] for value in values)


def sent():
    return sum(row["packets"] for row in asked("a", "qp")["qps"] if row["direction"] == "tx")


def check_offer(tap):
    refused = escapement("a", "pace", "on")
    tap.check(refused.rc == 1 and "noqueue" in refused.err and "setup-fq a0" in refused.err,
              "pace: without fq the interface says so, and what would do it", refused.err)
    asked("a", "pace", "setup-fq", "a0")
    shown = must("tc qdisc show dev a0")
    tap.check("qdisc fq e5c0: root" in shown, "pace: fq is there when it was asked for", shown)


def check_paced(tap):
    """The figures of a run that is paced, None when it could not be."""
    asked("a", "pace", "on")
    now = wait_paced()
    if not tap.check(now["clock"]["good"] and now["interfaces"][0]["paced"],
                     "pace: the interface is paced, with fabric time good enough", now):
        return None
    before = held()[0]
    result, *figures = traffic(19101)
    after = held()[0]
    tap.check(result.rc == 0 and after > before,
              f"pace: ib_write_bw ran to its end, {after - before} packets were held",
              result.out + result.err)
    return figures


def check_plain(tap, paced):
    """The same without: last, since its standing queue is hard on the clocks."""
    asked("a", "pace", "off")
    plain, drops, again, took = traffic(19102)
    tap.note("paced: {} dropped, {} sent again, {:.1f} s".format(*paced))
    tap.note(f"without: {drops} dropped, {again} sent again, {took:.1f} s; of {PACKETS} packets")
    tap.check(plain.rc == 0, "pace: ib_write_bw ran to its end without it", plain.out + plain.err)
    if not drops:
        tap.skip("pace: with it the queue drops less", "this machine is too slow to fill it")
        return
    tap.check(2 * paced[0] < drops, "pace: with it less than half as many", (paced[0], drops))


def check_silence(tap):
    """A daemon that is stopped: what leaves 2 s later is not held."""
    must(f"{tool('rxb', 19103, 400)} >{FOLDER}/server 2>&1 & sleep 1; "
         f"until grep -q ':{19103:04X} ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
         f"setsid {tool('rxa', 19103, 400, '127.0.0.1')} >{FOLDER}/client 2>&1 </dev/null &")
    deadline, before = time.monotonic() + 30, held()
    while held()[0] == before[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    tap.check(held()[0] > before[0], "pace: packets are held while the daemon lives", before)
    must(f"kill -STOP $(cat {FOLDER}/a.pid)")
    time.sleep(SILENT_SECONDS)
    first, wire = held(), counts()[1]
    time.sleep(2)
    last, wire = held(), counts()[1] - wire
    tap.check(last == first and wire > 0, f"pace: stopped for 2 s, it holds none of {wire} packets",
              (first, last))
    must(f"kill -CONT $(cat {FOLDER}/a.pid); kill $(pidof ib_write_bw); sleep 3")


# --- TCP by its own delay, below fq ---


def tcp_traffic(port_name):
    """(bytes that came, drops at the port, times that fq let a socket wait, a's `pace` meanwhile)."""
    def counted():
        waits = json.loads(must("tc -s -j qdisc show dev a0"))[0].get("throttled", 0)
        return counts()[0], waits

    must(f"echo $$ >{CGROUP}a/cgroup.procs; exec setsid python3 {FOLDER}/sender >{FOLDER}/sender.log "
         f"2>&1 </dev/null & until grep -q ':{TCP_PORT:04X} ' /proc/net/tcp; do sleep 0.1; done")
    before = counted()
    must(f"(echo 0 >{CGROUP}b/cgroup.procs; exec python3 {FOLDER}/receiver >{FOLDER}/received "
         "2>&1 </dev/null) & true")
    time.sleep(TCP_SECONDS / 2)
    shown = asked("a", "pace")["tcp"]
    deadline = time.monotonic() + 30
    while not (came := must(f"cat {FOLDER}/received").strip()) and time.monotonic() < deadline:
        time.sleep(0.2)
    after = counted()
    shell(f"for pid in $(cat {CGROUP}a/cgroup.procs); do kill $pid; done; sleep 0.5")
    if not came.isdigit():
        raise RuntimeError(f"{port_name}: {came} {must(f'cat {FOLDER}/sender.log')}")
    return int(came), after[0] - before[0], after[1] - before[1], shown


def test_pace_tcp(tap, folder):
    """TCP limited by its own delay on this kernel, its pacing by fq."""
    try:
        set_up()
        asked("a", "pace", "setup-fq", "a0")
        put("sender", TCP_SENDER.encode())
        put("receiver", TCP_RECEIVER.encode())
        for host in HOSTS:
            asked(host, "pace", "tcp", "on")
        deadline = time.monotonic() + CLOCK_SECONDS
        while not all(asked(host, "pace")["tcp"]["clock_good"] for host in HOSTS) \
                and time.monotonic() < deadline:
            time.sleep(0.5)
        came, drops, waits, shown = tcp_traffic("limited")
        rows = [row for row in shown["connections"] if row["sport"] == TCP_PORT]
        tap.note(f"limited: {came * 8 / TCP_SECONDS / 1e6:.1f} Mbit/s, {drops} dropped, fq let wait "
                 f"{waits} times; {shown['limits']}{shown.get('why', '')}")
        tap.check("cubic" in shown["limits"] and len(rows) == TCP_FLOWS and
                  all(row["limited"] for row in rows), "pace_tcp: all connections are limited", shown)
        tap.check(waits > 0, "pace_tcp: fq keeps their pace")
        for host in HOSTS:
            asked(host, "pace", "tcp", "observe")
        plain, plain_drops, _, shown = tcp_traffic("observed")
        tap.note(f"without: {plain * 8 / TCP_SECONDS / 1e6:.1f} Mbit/s, {plain_drops} dropped")
        if plain_drops < 20:
            tap.skip("pace_tcp: limited, less is dropped", "this machine is too slow to fill the port")
        else:
            tap.check(4 * drops < plain_drops, "pace_tcp: limited, less than a quarter is dropped",
                      (drops, plain_drops))
            tap.check(2 * came > plain, "pace_tcp: and more than half as much comes through",
                      (came, plain))
    finally:
        shell(TEAR_DOWN.format(folder=FOLDER))


def test_pace(tap, folder):
    """Pacing: fq on request, a shallow queue that does not drop, a silent daemon, fq undone."""
    try:
        set_up()
        check_offer(tap)
        paced = check_paced(tap)
        if paced:
            check_silence(tap)
            check_plain(tap, paced)
        shell(f"escapement --socket {FOLDER}/a.sock off")
        shown = must("tc qdisc show dev a0")
        tap.check(" fq " not in shown and "noqueue" in shown,
                  "pace: `off` leaves the qdisc that was there", shown)
    finally:
        shell(TEAR_DOWN.format(folder=FOLDER))
