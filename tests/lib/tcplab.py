# SPDX-License-Identifier: BSD-2-Clause
"""Senders, a switch with a shallow queue, a receiver with a longer path back, for TCP pacing.

Each host is a namespace and a cgroup of its own. The switch's port to every host has a token
bucket; what the receiver sends goes through a user-space delay line (this kernel may have no netem).

Sockets send GSO segments, and the hosts' interfaces segment them, as a NIC does: the switch forwards single
packets. A token bucket of two packets that gets GSO segments of two loses a tenth of its rate, since it is full
before its timer expires.
"""
import json
import os
import signal
import struct
import subprocess
import tempfile

import labtest
import undo

TOOLS = os.path.join(labtest.BUILD, "tests", "tools")
RATED = os.path.join(labtest.TOP, "tests", "tools", "rated")


def cgroup_root():
    """Where cgroup2 is mounted."""
    with open("/proc/self/mounts", encoding="ascii") as mounts:
        for line in mounts:
            words = line.split()
            if words[2] == "cgroup2":
                return words[1]
    return None


def remove_cgroup(path):
    """False while a process is in it."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values)) if any(values) else 0.0


class Star:
    """`senders` hosts h1.. and a receiver h0 around one switch, removed at the end of the block."""

    def __init__(self, name, senders=8, rate="200mbit", queue=75000, delay_us=1000,
                 slow_hosts=(0,)):
        self.name, self.senders, self.rate = f"{name}{os.getpid()}", senders, rate
        self.queue, self.delay_us, self.slow_hosts = queue, delay_us, slow_hosts
        self.switch = self.name + "s"
        self.hosts = range(senders + 1)
        self.children, self.servers = [], []

    def ns(self, host):
        return f"{self.name}h{host}"

    def address(self, host):
        return f"10.77.{host}.2"

    def cgroup(self, host):
        return os.path.join(cgroup_root(), self.ns(host))

    def sh(self, *words, check=True):
        code, out, err = labtest.run(list(words))
        if check and code:
            raise RuntimeError(f"{' '.join(words)}: exit {code}: {err or out}")
        return out

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        for ns in [self.switch, *map(self.ns, self.hosts)]:
            undo.register("ip", "netns", "del", ns)
        for host in self.hosts:
            undo.register("rmdir", self.cgroup(host))
        self.sh("ip", "netns", "add", self.switch)
        self.inside(self.switch, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for host in self.hosts:
            self.build_host(host)
        if self.delay_us:
            self.build_delay()

    def build_host(self, host):
        ns, port = self.ns(host), f"p{host}"
        self.sh("ip", "netns", "add", ns)
        self.sh("ip", "-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                "netns", self.switch)
        self.sh("ip", "-n", self.switch, "address", "add", f"10.77.{host}.1/24", "dev", port)
        self.sh("ip", "-n", self.switch, "link", "set", port, "up")
        self.sh("ip", "-n", ns, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        if self.rate:
            self.inside(ns, "ethtool", "-K", "eth0", "tso", "off")
        self.sh("ip", "-n", ns, "link", "set", "eth0", "up")
        self.sh("ip", "-n", ns, "route", "add", "default", "via", f"10.77.{host}.1")
        self.inside(ns, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
        if self.rate:
            self.sh("tc", "-n", self.switch, "qdisc", "add", "dev", port, "root", "tbf", "rate",
                    self.rate, "burst", "3200", "limit", str(self.queue))
        os.makedirs(self.cgroup(host), exist_ok=True)

    def build_delay(self):
        self.spawn(self.switch, None, os.path.join(TOOLS, "delayline"), "slow", str(self.delay_us),
                   ready=True)
        self.sh("ip", "-n", self.switch, "link", "set", "slow", "up")
        self.inside(self.switch, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv4.conf.slow.rp_filter=0")
        for host in self.slow_hosts:
            self.sh("ip", "-n", self.switch, "rule", "add", "pref", "10", "iif", f"p{host}",
                    "lookup", "100")
        self.sh("ip", "-n", self.switch, "route", "add", "default", "dev", "slow", "table", "100")

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()
        for ns in [self.switch, *map(self.ns, self.hosts)]:
            self.sh("ip", "netns", "del", ns, check=False)
        for host in self.hosts:
            labtest.wait_for(lambda path=self.cgroup(host): remove_cgroup(path), 3)

    def inside(self, ns, *words):
        return self.sh("ip", "netns", "exec", ns, *words)

    def command(self, ns, cgroup, *words):
        """As a child of the cgroup, in the namespace."""
        enter = ["ip", "netns", "exec", ns, *words]
        if cgroup is None:
            return enter
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', cgroup, *enter]

    def spawn(self, ns, cgroup, *words, ready=False):
        child = subprocess.Popen(self.command(ns, cgroup, *words), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        if ready and child.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{' '.join(words)} did not start")
        return child

    def end(self, child):
        child.kill()
        child.wait()
        child.stdout.close()
        self.children.remove(child)

    def rto_min(self, milliseconds=None):
        options = ["rto_min", f"{milliseconds}ms"] if milliseconds else []
        for host in self.hosts:
            self.sh("ip", "-n", self.ns(host), "route", "replace", "default", "via",
                    f"10.77.{host}.1", *options)

    def serve(self, hosts, congestion, port=7000, more=False):
        """New servers, so that their sockets have the current settings; @more: beside those that run."""
        while self.servers and not more:
            self.end(self.servers.pop())
        self.servers += [self.spawn(self.ns(host), self.cgroup(host), os.path.join(TOOLS, "tcpload"),
                                    "serve", str(port), congestion, ready=True) for host in hosts]

    def fetching(self, host, hosts, **options):
        """A client at `host` of servers at `hosts`, in the background."""
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        return self.spawn(self.ns(host), self.cgroup(host), os.path.join(TOOLS, "tcpload"),
                          "fetch", *words, *map(self.address, hosts))

    def fetched(self, child):
        """Its output, when it has ended."""
        out, _ = child.communicate(timeout=300)
        self.children.remove(child)
        if child.returncode:
            raise RuntimeError(f"tcpload: exit {child.returncode}")
        return json.loads(out)

    def fetch(self, hosts, **options):
        """One run at the receiver, with the counters of its port."""
        before = self.port(0)
        result = self.fetched(self.fetching(0, hosts, **options))
        after = self.port(0)
        result["drops"] = after["drops"] - before["drops"]
        result["wire_bps"] = (after["bytes"] - before["bytes"]) * 8 / result["active_seconds"]
        return result

    def port(self, host):
        """The token bucket of the switch's port to a host."""
        found = json.loads(self.sh("tc", "-n", self.switch, "-s", "-j", "qdisc", "show", "dev",
                                   f"p{host}"))
        return next(q for q in found if q["kind"] == "tbf") if self.rate else {"drops": 0, "bytes": 0}


class PortDelay:
    """The delay of each data packet from the servers in the queue of the switch's port to h0, by one capture of all
    interfaces of the switch: packets that leave are captured behind the queue. delays_ns is set when the block
    ends; dropped packets have none."""
    PACKET = struct.Struct("=IIII")  # of a pcap file: seconds, nanoseconds, bytes kept, bytes
    LINK = struct.Struct(">HHIHBB8x")  # LINUX_SLL2: protocol, 0, interface, type, packet's direction, ...
    TO_US, OUTGOING = 0, 4

    def __init__(self, star, port=7000):
        self.folder = tempfile.TemporaryDirectory(prefix="escapement-port-")
        self.path = os.path.join(self.folder.name, "pcap")
        self.delays_ns = []
        self.process = subprocess.Popen(
            star.command(star.switch, None, "tcpdump", "-i", "any", "-n", "-Z", "root", "-s", "80", "-B", "65536",
                         "--time-stamp-precision=nano", "-w", self.path,
                         f"tcp src port {port} and dst host {star.address(0)} and greater 200"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while "listening on" not in (line := self.process.stderr.readline()):
            if not line:
                raise RuntimeError("tcpdump does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
        with open(self.path, "rb") as file:
            data = file.read()
        self.folder.cleanup()
        received, at = {}, 24
        while at + self.PACKET.size <= len(data):
            seconds, part_ns, kept, _ = self.PACKET.unpack_from(data, at)
            at += self.PACKET.size
            direction = self.LINK.unpack_from(data, at)[4]
            ip = at + self.LINK.size
            tcp = ip + 4 * (data[ip] & 15)
            # Source, identification, destination port, sequence number.
            key = data[ip + 12:ip + 16] + data[ip + 4:ip + 6] + data[tcp + 2:tcp + 8]
            now = seconds * 10**9 + part_ns
            if direction == self.OUTGOING and key in received:
                self.delays_ns.append(now - received.pop(key))
            elif direction == self.TO_US:
                received[key] = now
            at += kept


class Rated:
    """A sender at `host` that sets options of its socket on request (tools/rated)."""

    def __init__(self, star, host, port, congestion):
        self.child = subprocess.Popen(
            star.command(star.ns(host), star.cgroup(host), "/usr/bin/python3", RATED, str(port),
                         congestion), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.child.stdout.readline()

    def request(self, *words):
        """The reply: its maximum pacing rate in bytes per second, None without one."""
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        rate = int(self.child.stdout.readline())
        return rate if rate < 0xffffffff else None

    def end(self):
        self.child.stdin.close()
        self.child.wait(30)
        self.child.stdout.close()


class Edges:
    """The programs on the cgroups of a star, without a daemon. errors: {host: ns that its clock is off}."""

    def __init__(self, star, threshold_us=500, errors=None):
        cgroups = [f"{star.cgroup(host)}={(errors or {}).get(host, 0)}" for host in star.hosts]
        spaces = ":".join(f"/run/netns/{star.ns(host)}" for host in star.hosts)
        self.child = subprocess.Popen([os.path.join(TOOLS, "edgerun"), str(threshold_us), *cgroups],
                                      env=os.environ | {"EDGERUN_NETNS": spaces}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hello = self.line()
        for host in star.hosts:
            self.request("member", star.address(host))

    def line(self):
        text = self.child.stdout.readline()
        if not text:
            raise RuntimeError(f"edgerun ended: {self.child.wait()}")
        return json.loads(text)

    def request(self, *words):
        self.child.stdin.write(" ".join(words) + "\n")
        self.child.stdin.flush()
        return self.line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait(30)
        self.child.stdout.close()
