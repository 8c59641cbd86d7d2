# SPDX-License-Identifier: BSD-2-Clause
"""One escapementd per host: started, queried until it replies, ended."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import time

from . import enter
from . import processes
from . import state

# An emulated machine takes its time to load the programs; the kernel verifies them for each interface.
REPLY_S, STOP_S = float(os.environ.get("LAB_REPLY_SECONDS", 60)), 10.0
LOG_LINES = 8


def chosen_hosts(topology, names):
    known = [h["name"] for h in topology["hosts"]]
    for name in names:
        if name not in known:
            raise state.usage(f"no host '{name}' in lab '{topology['lab']}'; "
                              f"there are {', '.join(known)}")
    return names or known


def pid_of(paths, host):
    """The running daemon of @host, None without one. The number in the file may be stale."""
    try:
        with open(paths.node(host, "pid"), encoding="ascii") as text:
            pid = int(text.read())
    except (FileNotFoundError, ValueError):
        return None
    return pid if processes.alive(pid) and processes.lives_in(paths, host, pid) else None


def weigh():
    """CPUWeight= of the unit, about: the weight of a nice value of -10 for the session (sched(7), autogroup)."""
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write("-10")


def launch(paths, host, program):
    """Starts the daemon in its own session, its output appended to the host's log."""
    log = os.open(paths.node(host, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def inside():
        os.setsid()
        weigh()
        enter.node_view(paths, host)
    try:
        child = subprocess.Popen(
            [program, "-c", paths.node(host, "escapement.yaml"), "--foreground"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=inside, cwd="/")
    except subprocess.SubprocessError as error:
        raise state.LabError(f"{host}: could not be entered: {error}") from None
    finally:
        os.close(log)
    with open(paths.node(host, "pid"), "w", encoding="ascii") as out:
        out.write(f"{child.pid}\n")
    return child


def query(path, verb):
    """The result of one request on a daemon's socket. OSError: there is no daemon."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(path)
        client.sendall(json.dumps({"verb": verb}).encode() + b"\n")
        text = b""
        while not text.endswith(b"\n"):
            part = client.recv(1 << 16)
            if not part:
                raise ConnectionError(f"{path}: the connection ended within the reply")
            text += part
    reply = json.loads(text)
    if not reply["ok"]:
        raise RuntimeError(f"{path}: {reply['error']}")
    return reply["result"]


def replies(paths, host):
    try:
        query(paths.node(host, "run", "escapement.sock"), "status")
    except OSError:
        return False
    return True


def log_tail(paths, host):
    try:
        with open(paths.node(host, "log"), encoding="utf-8", errors="replace") as text:
            lines = text.read().splitlines()[-LOG_LINES:]
    except FileNotFoundError:
        lines = []
    return "".join(f"\n  {line}" for line in lines) or "\n  (the log is empty)"


def programs():
    found = [state.build_dir() + "/" + name for name in ("escapementd", "escapement")]
    for path in found:
        if not os.access(path, os.X_OK):
            raise state.LabError(f"{path} is not built; run `make` "
                                 "(ESCAPEMENT_BUILD names another build folder)")
    return found


def start(paths, names):
    """Starts what does not run yet; raises with the last log lines of those that fail."""
    topology = state.load_topology(paths)
    program = programs()[0]
    waiting = {}
    for host in chosen_hosts(topology, names):
        if pid_of(paths, host) is None:
            waiting[host] = launch(paths, host, program)
    failed = []
    reply_s = REPLY_S * (1 + 2 * len(topology["nics"]) // len(topology["hosts"]))
    deadline = time.monotonic() + reply_s
    while waiting:
        for host, child in list(waiting.items()):
            if child.poll() is not None:
                failed.append(f"{host}: escapementd ended with {child.returncode}"
                              + log_tail(paths, host))
                del waiting[host]
            elif replies(paths, host):
                del waiting[host]
        if waiting and time.monotonic() > deadline:
            failed += [f"{host}: escapementd does not reply after {reply_s:.0f} s"
                       + log_tail(paths, host) for host in waiting]
            break
        time.sleep(0.01)
    if failed:
        raise state.LabError("\n".join(failed))


def stop(paths, names):
    topology = state.load_topology(paths)
    running = {h: pid_of(paths, h) for h in chosen_hosts(topology, names)}
    running = {host: pid for host, pid in running.items() if pid}
    for pid in running.values():
        processes.send(pid, signal.SIGTERM)
    processes.wait_gone(lambda: not any(map(processes.alive, running.values())), STOP_S)
    stuck = [host for host, pid in running.items() if processes.alive(pid)]
    for host in stuck:
        processes.send(running[host], signal.SIGKILL)
    for host in running:
        forget(paths, host)
    if stuck:
        raise state.LabError("\n".join(
            f"{host}: escapementd did not end within {STOP_S:.0f} s and was killed"
            + log_tail(paths, host) for host in stuck))


def kill(paths, names):
    topology = state.load_topology(paths)
    for host in chosen_hosts(topology, names):
        pid = pid_of(paths, host)
        if pid:
            processes.send(pid, signal.SIGKILL)
            processes.wait_gone(lambda pid=pid: not processes.alive(pid), STOP_S)
        forget(paths, host)


def forget(paths, host):
    try:
        os.unlink(paths.node(host, "pid"))
    except FileNotFoundError:
        pass
