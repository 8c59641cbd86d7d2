# SPDX-License-Identifier: BSD-2-Clause
"""Processes are identified by their network namespace, never by their name."""
import os
import signal
import time

from . import state

POLITE_S, FINAL_S = 2.0, 5.0


def namespace_id(path):
    """The identity of a namespace, None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def inside(paths, nodes):
    """Process ids by node."""
    owners = {}
    for node in nodes:
        identity = namespace_id(paths.netns(node))
        if identity and is_namespace(paths.netns(node)):
            owners[identity] = node
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            node = owners.get(namespace_id(f"/proc/{entry}/ns/net"))
            if node:
                found.setdefault(node, []).append(int(entry))
    return found


def is_namespace(path):
    """A namespace file lies on nsfs; a plain file there is an incomplete namespace."""
    return os.stat(path).st_dev == os.stat("/proc/self/ns/net").st_dev


def lives_in(paths, node, pid):
    identity = namespace_id(paths.netns(node))
    return identity is not None and namespace_id(f"/proc/{pid}/ns/net") == identity


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def alive(pid):
    """Also while one of its threads is: a killed process has its files and locks until the last one has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as text:
            if text.read().rpartition(")")[2].split()[0] not in "ZX":
                return True
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def wait_gone(is_gone, seconds):
    deadline = time.monotonic() + seconds
    while not is_gone():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def end_all(paths, nodes):
    """Ends all processes in @nodes, by SIGTERM, then by SIGKILL."""
    found = {pid for pids in inside(paths, nodes).values() for pid in pids}
    if os.getpid() in found:
        raise state.LabError("this shell is itself inside the lab; leave it, then `lab down`")
    for number, seconds in ((signal.SIGTERM, POLITE_S), (signal.SIGKILL, FINAL_S)):
        for pids in inside(paths, nodes).values():
            for pid in pids:
                send(pid, number)
        if wait_gone(lambda: not inside(paths, nodes), seconds):
            return
    left = sorted(pid for pids in inside(paths, nodes).values() for pid in pids)
    raise state.LabError(f"processes {left} in lab '{paths.name}' do not end; "
                         "end them, then `lab down`")
