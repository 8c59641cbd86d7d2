# SPDX-License-Identifier: BSD-2-Clause
"""What is kept between commands: a folder a guest under /run/escapement-vm/$LAB."""
import fcntl
import json
import os
import re
import signal
import subprocess
import time

from .errors import VmError

LAB = os.environ.get("LAB") or "esc"
ROOT = os.path.join("/run/escapement-vm", LAB)
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ESCAPEMENT_BUILD", os.path.join(TOP, "build"))
LAB_PROGRAM = os.path.join(TOP, "tests/lab/lab")
NAME = re.compile(r"^[A-Za-z][A-Za-z0-9]{0,7}$")


def folder(name):
    return os.path.join(ROOT, name)


def write_json(path, value):
    """Written aside and renamed: a reader never sees half of it."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.rename(path + ".new", path)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def names():
    """Guests that have a folder, whether they run or not."""
    found = os.listdir(ROOT) if os.path.isdir(ROOT) else []
    return sorted(name for name in found if os.path.isdir(folder(name)))


def guest(name):
    try:
        return read_json(os.path.join(folder(name), "guest.json"))
    except FileNotFoundError:
        here = ", ".join(names()) or "none"
        raise VmError(f"no guest {name} in lab {LAB} (there are: {here}); "
                      f"'vm up {name}:leaf1' makes one") from None


def start_ticks(pid):
    """When a process started, in ticks since boot; None when it is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def process_record(pid):
    """Names a process beyond its pid, which may come again."""
    return {"pid": pid, "start_ticks": start_ticks(pid)}


def alive(record):
    return record["start_ticks"] is not None and \
        start_ticks(record["pid"]) == record["start_ticks"]


def end_process(record, sig=signal.SIGTERM, seconds=5):
    """Ends one process of ours, for good. True when it went by itself."""
    if not alive(record):
        return True
    os.kill(record["pid"], sig)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reap(record["pid"])
        if not alive(record):
            return True
        time.sleep(0.02)
    os.kill(record["pid"], signal.SIGKILL)
    reap(record["pid"])
    return False


def reap(pid):
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # the child of an earlier command: init reaps it


def in_netns(netns, argv):
    """argv to be run in a named network namespace, by exec: the pid stays the command's."""
    return ["nsenter", f"--net=/run/netns/{netns}", "--"] + list(argv)


def lab(*words):
    """Runs the lab program; returns what it printed."""
    done = subprocess.run([LAB_PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, env=dict(os.environ, LAB=LAB))
    if done.returncode:
        raise VmError(done.stderr.strip() or f"lab {' '.join(words)}: exit {done.returncode}")
    return done.stdout


class Lock:
    """An exclusive lock on a file in the state folder; one of `count` when there are several."""

    def __init__(self, path, count=1, seconds=60):
        self.path, self.count, self.seconds = path, count, seconds
        self.file = self.number = None

    def __enter__(self):
        deadline = time.monotonic() + self.seconds
        while True:
            for number in range(self.count):
                file = open(f"{self.path}.{number}.lock", "w", encoding="ascii")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.file, self.number = file, number
                    return self
                except BlockingIOError:
                    file.close()
            if time.monotonic() > deadline:
                raise VmError(f"{self.path}: all {self.count} in use for {self.seconds} s")
            time.sleep(0.03)

    def __exit__(self, *_):
        self.file.close()
