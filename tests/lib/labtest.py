# SPDX-License-Identifier: BSD-2-Clause
"""What the lab's test programs share: a lab of their own, the command line's JSON, traffic."""
import json
import os
import subprocess
import time

import events

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ESCAPEMENT_BUILD", os.path.join(TOP, "build"))
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


def cpu_ticks(since=(0, 0)):
    """(idle, all) of all CPUs since then, in hundredths of a second."""
    with open("/proc/stat", encoding="ascii") as text:
        ticks = [int(word) for word in text.readline().split()[1:9]]
    return ticks[3] + ticks[4] - since[0], sum(ticks) - since[1]


def sender(number=0):
    """A roceflow that sends, on one CPU: one that changes CPUs changes queues of the veth, and its packets
    overtake each other there."""
    return ["taskset", "-c", str(number % os.cpu_count()), ROCEFLOW, "send"]


def flow(lab, server, client, *options, server_options=(), timeout=60, six=False):
    """One roceflow run to its end: (server's JSON, client's JSON)."""
    address = lab.host(server)["address6" if six else "address"]
    serving = lab.start(server, ROCEFLOW, "serve", "--listen", address, "--interface", "eth1",
                        "--json", *server_options)
    try:
        out = lab.good(client, *sender(), "--to", address, "--json", *options,
                       timeout=timeout)
        served, error = serving.communicate(timeout=timeout)
    finally:
        if serving.poll() is None:
            serving.terminate()
            serving.wait()
    if serving.returncode:
        raise RuntimeError(f"roceflow serve: exit {serving.returncode}: {error}")
    return json.loads(served), json.loads(out)


def wait_for(condition, seconds=10, step=0.1):
    """Polls until the condition gives something true; its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(step)
