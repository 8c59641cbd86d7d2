# SPDX-License-Identifier: BSD-2-Clause
"""What the lab's test programs share: a lab of their own, the command line's JSON, traffic."""
import json
import os
import subprocess
import time

import events

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ESCAPEMENT_BUILD", os.path.join(TOP, "build"))
CACHE = os.environ.get("ESCAPEMENT_CACHE", "/var/cache/escapement-tests")
os.environ["PATH"] += "".join(f":{CACHE}/{package}/usr/bin"
                              for package in ("prometheus", "prometheus-node-exporter"))
ROCEFLOW = os.path.join(BUILD, "tests", "tools", "roceflow", "roceflow")


def run(command, timeout=60, **keywords):
    """One command to its end: (exit code, stdout, stderr)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, **keywords)
    return done.returncode, done.stdout, done.stderr


class Lab:
    """A lab of its own name (two runs at once do not meet), taken down whatever happens."""

    def __init__(self, name, *options):
        self.name, self.options = f"{name}{os.getpid()}", options
        self.env = dict(os.environ, LAB=self.name, ESCAPEMENT_BUILD=BUILD)
        self.tool = os.path.join(TOP, "tests", "lab", "lab")

    def __enter__(self):
        self("up", *self.options)
        return self

    def __exit__(self, *_):
        run([self.tool, "down"], env=self.env)

    def __call__(self, *words, timeout=60):
        code, out, err = run([self.tool, *words], timeout=timeout, env=self.env)
        if code:
            raise RuntimeError(f"lab {' '.join(words)}: exit {code}: {err or out}")
        return out

    def exec(self, node, *command, timeout=60):
        """(exit code, stdout, stderr) of a command in a node."""
        return run([self.tool, "exec", node, "--", *command], timeout=timeout, env=self.env)

    def good(self, node, *command, timeout=60):
        """stdout of a command in a node that has to succeed."""
        code, out, err = self.exec(node, *command, timeout=timeout)
        if code:
            raise RuntimeError(f"{node}: {' '.join(command)}: exit {code}: {err or out}")
        return out

    def start(self, node, *command):
        """A command in a node that goes on; the caller waits for it."""
        return subprocess.Popen([self.tool, "exec", node, "--", *command], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def json(self, node, *words):
        """The command line's answer in a node."""
        return json.loads(self.good(node, "escapement", "-j", *words))

    def events(self, node, *kinds, since_ns=0):
        """See events.parse()."""
        return events.parse(self.good(node, "escapement", "-j", "events"), *kinds, since_ns=since_ns)

    def status(self):
        return json.loads(self("status", "-j"))

    def host(self, name):
        return next(host for host in self.status()["hosts"] if host["name"] == name)


def noise(seconds=1):
    """The machine's scheduling noise, as tests/tools/noise has it: {"share": of the time that a program was
    kept from running, "median_us": of the gaps, ...}."""
    _, out, _ = run([os.path.join(BUILD, "tests", "tools", "noise"), "-j", str(seconds)])
    return json.loads(out)


def cpu_ticks(since=(0, 0)):
    """(idle, all) of all CPUs since then, in hundredths of a second."""
    with open("/proc/stat", encoding="ascii") as text:
        ticks = [int(word) for word in text.readline().split()[1:9]]
    return ticks[3] + ticks[4] - since[0], sum(ticks) - since[1]


def sender(number=0):
    """A roceflow that sends, on one CPU: one that changes CPUs changes queues of the veth, and its packets
    overtake each other there."""
    return ["taskset", "-c", str(number % os.cpu_count()), ROCEFLOW, "send"]


class Flow:
    """roceflow from @client to @server, until it is ended or, as @options may say, through. In a `with` it is
    gone behind it."""

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
        """Its queue pairs as the client's daemon has them, by number."""
        return sorted((qp for qp in self.lab.json(self.from_, "qp")["qps"]
                       if qp["direction"] == "tx" and qp["dst"] == self.address),
                      key=lambda qp: qp["dest_qpn"])

    def row(self, qpn):
        return next(qp for qp in self.rows() if qp["dest_qpn"] == qpn)

    def arriving(self, qpn):
        """The source port that the newest packet reached the server with."""
        return next(qp["sport"] for qp in self.lab.json(self.to, "qp")["qps"]
                    if qp["direction"] == "rx" and qp["dest_qpn"] == qpn and qp["dst"] == self.address)

    def through(self, timeout=90):
        """(the client's JSON, the server's), once both have ended by themselves."""
        if self.ends is None:
            ended = [(process, *process.communicate(timeout=timeout)) for process in (self.client, self.server)]
            for process, _, error in ended:
                if process.returncode:
                    raise RuntimeError(f"roceflow: exit {process.returncode}: {error}")
            self.ends = tuple(json.loads(out) for _, out, _ in ended)
        return self.ends

    def end(self, timeout=90):
        """As through(), at once."""
        if self.client.poll() is None:
            self.client.terminate()
        return self.through(timeout)

    def kill(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                process.terminate()
                process.communicate()

    def diagnosis(self):
        """Ends it: (stderr, exit code) of the client and of the server."""
        self.kill()
        return [(process.stderr.read() if not process.stderr.closed else "", process.returncode)
                for process in (self.client, self.server)]


def flow(lab, server, client, *options, server_options=(), timeout=60, six=False):
    """One roceflow run to its end: (server's JSON, client's JSON)."""
    with Flow(lab, *options, client=client, server=server, six=six, server_options=server_options) as running:
        sent, served = running.through(timeout)
    return served, sent


def wait_for(condition, seconds=10, step=0.1):
    """Polls until the condition gives something true; its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(step)
