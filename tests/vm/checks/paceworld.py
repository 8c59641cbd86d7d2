# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts in one machine's kernel, with one clock, and a slow port between them: for pacing.

Each is a soft-RoCE device and a daemon of its own; between them is a network namespace. Two
machines' clocks are too far apart when these are busy. These two are the kernel's own: with native
XDP no probe is replied to, since a veth's peer without it drops XDP_TX, so each host's time is its
local one.
"""
import base64
import contextlib
import json
import time

from emulation import channel, daemon

from . import bench, cleanup

GUEST = bench.CLIENT
FOLDER = "/run/escapement-pace"
HOSTS = ("a", "b")
ADDRESS = {"a": "10.77.1.2", "b": "10.77.2.2"}
GATEWAY = {"a": "10.77.1.1", "b": "10.77.2.1"}
KEY = bytes(range(16))
# The port: 20 Mbit/s with 24 ms of queue; four windows of soft-RoCE are five times as much.
RATE, LIMIT_BYTES, THRESHOLD = "20mbit", 60000, "8ms"
MTU = 512
START_SECONDS, CLOCK_SECONDS = 180, 60
CONFIGURATION = """host: {host}
interfaces: [{{ name: {host}0, attach: native }}]
members: {folder}/members.json
key_file: {folder}/key
pin_root: /sys/fs/bpf/pace-{host}
socket: {folder}/{host}.sock
kill_file: {folder}/{host}.off
mesh: {{ pair_interval: 10ms, pair_spacing: 20us }}
clock: {{ window: 5s }}
pace:
  threshold: {threshold}
  line: 20Mbit
  hold_max: 500ms
  classes: [{{ name: gold, dscp: 26, weight: 3 }}]
  tcp: {{ mode: off, cgroup: {cgroup}, threshold: {threshold} }}
"""
CGROUP = "/sys/fs/cgroup/pace-"
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


def query(host, *words):
    result = escapement(host, *words)
    if result.rc:
        raise RuntimeError(f"escapement {' '.join(words)}: {result.err}")
    return json.loads(result.out)


@contextlib.contextmanager
def hosts(limit=LIMIT_BYTES):
    """Both hosts with their daemons."""
    try:
        set_up(limit)
        yield
    finally:
        shell(TEAR_DOWN.format(folder=FOLDER))


def set_up(limit):
    cleanup.make_absent([GUEST])
    daemon.install([GUEST])
    links = "".join(LINK.format(h=host, gateway=GATEWAY[host], address=ADDRESS[host], table=101 + i)
                    for i, host in enumerate(HOSTS))
    must(BUILD.format(links=links, rate=RATE, limit=limit))
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
    for host in HOSTS:
        wait_started(host)


def wait_started(host):
    if not channel.wait_listen(GUEST, f"{FOLDER}/{host}.sock", START_SECONDS):
        raise TimeoutError(must(f"tail -n 3 {FOLDER}/{host}.log"))


def have_time():
    """Without the receiver's time there are no delays: rates double until the port's queue stands, which a flow that
    knows no floor then takes for the path."""
    return query("a", "pace")["clock"]["usable"] and query("b", "clock")["state"] != "free_running"


def wait_paced():
    """Pacing that is on waits for a clock that is good enough."""
    deadline = time.monotonic() + CLOCK_SECONDS
    while not have_time() and time.monotonic() < deadline:
        time.sleep(0.5)
    return query("a", "pace")


def counts():
    qdisc = json.loads(must("ip netns exec pacenet tc -s -j qdisc show dev b1"))[0]
    sent = int(must("cat /sys/class/infiniband/rxa/ports/1/hw_counters/sent_pkts"))
    return qdisc["drops"], sent
