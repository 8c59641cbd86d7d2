# SPDX-License-Identifier: BSD-2-Clause
"""What the lab's test programs share: a lab of their own, the JSON of the command line, traffic."""
import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import time

import events
import eventschema
from labkit import commands, enter, show, state

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ESCAPEMENT_BUILD", os.path.join(TOP, "build"))
CACHE = os.environ.get("ESCAPEMENT_CACHE", "/var/cache/escapement-tests")
os.environ["PATH"] += "".join(f":{CACHE}/{package}/usr/bin"
                              for package in ("prometheus", "prometheus-node-exporter"))
# Options of a lab whose switches send an ICMP error for each packet: paths are discovered in less time. Only
# test_paths has the interval of the kernel, a second, as switches limit it as well.
ALL_ICMP = ("--icmp-interval", "0")
PROCESS = os.getpid()
ROCEFLOW = os.path.join(BUILD, "tests", "tools", "roceflow", "roceflow")


def run(command, timeout=60, **keywords):
    """One command to its end: (exit code, stdout, stderr)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, **keywords)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def release(lab, program):
    """A block in which the lab starts @program as escapementd; None: that of this build."""
    before = os.environ.get("ESCAPEMENT_BUILD")
    if program:
        folder = f"/run/escapement-lab/{lab.name}/release"
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.symlink(program, folder + "/escapementd")
            os.symlink(BUILD + "/escapement", folder + "/escapement")
        os.environ["ESCAPEMENT_BUILD"] = folder
    try:
        yield
    finally:
        os.environ.pop("ESCAPEMENT_BUILD", None)
        if before is not None:
            os.environ["ESCAPEMENT_BUILD"] = before


def end_blocks(*_):
    """SIGTERM ends the blocks of this process, so that labs and loads are removed; not those of a child before its
    exec, which are its parent's."""
    if os.getpid() != PROCESS:
        os._exit(128 + signal.SIGTERM)
    sys.exit(128 + signal.SIGTERM)


class Lab:
    """A lab of its own name (two runs at once do not collide), removed however the block ends. The verbs of
    tests/lab/lab and commands in nodes run without a Python process of their own, except up and down."""

    def __init__(self, name, *options):
        self.name, self.options = f"{name}{os.getpid()}", options
        self.env = dict(os.environ, LAB=self.name, ESCAPEMENT_BUILD=BUILD)
        self.tool = os.path.join(TOP, "tests", "lab", "lab")

    def __enter__(self):
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, end_blocks)
        try:
            self("up", *self.options)
        except BaseException:
            run([self.tool, "down"], env=self.env)
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            wrong = self.wrong_events()
        finally:
            run([self.tool, "down"], env=self.env)
        if wrong and not kind:
            raise RuntimeError("events that are not by their schema:\n" + "\n".join(wrong[:8]))

    def __call__(self, *words):
        """A verb of tests/lab/lab: what it prints."""
        if words[0] not in ("up", "down"):
            return commands.run(state.Paths(self.name), words)
        code, out, err = run([self.tool, *words], env=self.env)
        if code:
            raise RuntimeError(f"lab {' '.join(words)}: exit {code}: {err or out}")
        return out

    def wrong_events(self):
        """What is wrong with the events that the daemons recorded, by their schema."""
        check, found = eventschema.validator(), []
        for path in glob.glob(state.Paths(self.name).node("h*", "logs") + "/events.jsonl*"):
            with open(path, encoding="utf-8", errors="replace") as text:
                found += [f"{path}: {error}" for error in eventschema.errors(text, check, True)]
        return found

    def inside(self, node):
        """Keywords of subprocess, for a command that runs in a node."""
        paths = state.Paths(self.name)
        return {"preexec_fn": lambda: enter.node_view(paths, node),
                "env": dict(self.env, PATH=f"{BUILD}:{self.env['PATH']}")}

    def exec(self, node, *command, timeout=60):
        """(exit code, stdout, stderr) of a command in a node."""
        return run(command, timeout=timeout, **self.inside(node))

    def good(self, node, *command, timeout=60):
        """stdout of a command in a node that has to succeed."""
        code, out, err = self.exec(node, *command, timeout=timeout)
        if code:
            raise RuntimeError(f"{node}: {' '.join(command)}: exit {code}: {err or out}")
        return out

    def start(self, node, *command):
        """A command in a node, in the background; the caller waits for it."""
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **self.inside(node))

    def json(self, node, *words):
        """The JSON output of the command line in a node."""
        return json.loads(self.good(node, "escapement", "-j", *words))

    def events(self, node, *kinds, since_ns=0):
        """See events.parse()."""
        return events.parse(self.good(node, "escapement", "-j", "events"), *kinds, since_ns=since_ns)

    def status(self):
        return show.status(state.Paths(self.name))

    def host(self, name):
        return next(host for host in self.status()["hosts"] if host["name"] == name)


def noise(seconds=1):
    """Scheduling delays of the machine (tests/tools/noise): {"share": part of the time in which processes were
    delayed, "median_us": of the delays, ...}."""
    _, out, _ = run([os.path.join(BUILD, "tests", "tools", "noise"), "-j", str(seconds)])
    return json.loads(out)


@contextlib.contextmanager
def busy(loops):
    """So many processes that take all of a CPU, meanwhile."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def cpu_ticks(since=(0, 0)):
    """(idle, all) of all CPUs since then, in hundredths of a second."""
    with open("/proc/stat", encoding="ascii") as text:
        ticks = [int(word) for word in text.readline().split()[1:9]]
    return ticks[3] + ticks[4] - since[0], sum(ticks) - since[1]


def sender(number=0):
    """A roceflow that sends, on one CPU: a sender that changes CPUs changes queues of the veth, which reorders its
    packets."""
    return ["taskset", "-c", str(number % os.cpu_count()), ROCEFLOW, "send"]


@contextlib.contextmanager
def queue_pairs(lab, nics, draw):
    """@nics as `lab status` has them, each with its `host`. Of each two, to NICs of its rail on two other leaves: what the surveys of paths need."""
    flows, port, taken = [], 18600, []
    try:
        for nic in nics:
            others = [one for one in nics if one["rail"] == nic["rail"] and one["leaf"] != nic["leaf"]]
            for other in draw.sample(others, 2):
                port += 1
                flows.append(lab.start(other["host"], ROCEFLOW, "serve", "--listen", other["address"], "--interface",
                                       other["interface"], "--control-port", str(port), "--idle", "600"))
                taken.append((nic, other, port))
        for nic, other, port in taken:
            flows.append(lab.start(nic["host"], ROCEFLOW, "send", "--to", other["address"], "--interface",
                                   nic["interface"], "--control-port", str(port), "--qps", "2", "--rate", "20k", "--size", "1024",
                                   "--seconds", "600", "--give-up", "60"))
        yield
    finally:
        for flow in flows:
            flow.terminate()
        for flow in flows:
            flow.communicate()


class Flow:
    """roceflow from @client to @server until it is stopped, or has sent what @options state. A `with` block stops
    it."""

    def __init__(self, lab, *options, client="h1", server="h2", six=False, server_options=(), cpu=0):
        self.lab, self.from_, self.to = lab, client, server
        self.address = lab.host(server)["address6" if six else "address"]
        self.server = lab.start(server, ROCEFLOW, "serve", "--listen", self.address, "--interface", "eth1", "--json",
                                *server_options)
        try:
            self.client = lab.start(client, *sender(cpu), "--to", self.address, "--json", *options)
        except BaseException:
            self.server.kill()
            raise
        self.begun_ns = time.time_ns()
        self.ends = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def rows(self):
        """Its queue pairs as the client's daemon lists them, by number."""
        return sorted((qp for qp in self.lab.json(self.from_, "qp")["qps"]
                       if qp["direction"] == "tx" and qp["dst"] == self.address),
                      key=lambda qp: qp["dest_qpn"])

    def row(self, qpn):
        return next(qp for qp in self.rows() if qp["dest_qpn"] == qpn)

    def received_sport(self, qpn):
        """The source port of the last packet that the server received."""
        return next(qp["sport"] for qp in self.lab.json(self.to, "qp")["qps"]
                    if qp["direction"] == "rx" and qp["dest_qpn"] == qpn and qp["dst"] == self.address)

    def wait(self, timeout=90):
        """(the client's JSON, the server's), when both have ended."""
        if self.ends is None:
            ended = [(process, *process.communicate(timeout=timeout)) for process in (self.client, self.server)]
            for process, _, error in ended:
                if process.returncode:
                    raise RuntimeError(f"roceflow: exit {process.returncode}: {error}")
            self.ends = tuple(json.loads(out) for _, out, _ in ended)
        return self.ends

    def end(self, timeout=90):
        """Stops the client; see wait()."""
        if self.client.poll() is None:
            self.client.terminate()
        return self.wait(timeout)

    def kill(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                process.terminate()
                process.communicate()

    def diagnosis(self):
        """Stops both: (stderr, exit code) of the client and of the server."""
        self.kill()
        return [(process.stderr.read() if not process.stderr.closed else "", process.returncode)
                for process in (self.client, self.server)]


def flow(lab, server, client, *options, server_options=(), timeout=60, six=False):
    """One roceflow run: (the server's JSON, the client's)."""
    with Flow(lab, *options, client=client, server=server, six=six, server_options=server_options) as running:
        sent, served = running.wait(timeout)
    return served, sent


def wait_for(condition, seconds=10, step=0.1):
    """Polls until the condition is true; its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(step)
