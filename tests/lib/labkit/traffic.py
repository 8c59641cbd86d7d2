# SPDX-License-Identifier: BSD-2-Clause
"""Background load between hosts: `roceflow load` in one, `roceflow sink` in the other."""
import os
import signal
import subprocess

from . import enter
from . import processes
from . import show
from . import state

STOP_S = 3.0


def add_verb(verbs, rate, count, seconds, ports):
    verb = verbs.add_parser(
        "load", help="paced UDP from one host to another; in the background without --seconds",
        usage="lab load SOURCE TARGET RATE [--seconds N] [--flows N] [--size BYTES] "
              "[--sport PORT] [-6]\n       lab load stop")
    verb.add_argument("source")
    verb.add_argument("target", nargs="?")
    verb.add_argument("rate", nargs="?", type=rate)
    verb.add_argument("--seconds", type=seconds, help="in the foreground, for so long")
    verb.add_argument("--flows", type=count(1, 256), default=1, help="each its own source port")
    verb.add_argument("--size", type=count(1, 8900), default=1400)
    verb.add_argument("--sport", type=ports, help="source port of the first flow")
    verb.add_argument("-6", dest="six", action="store_true")
    verb.set_defaults(act=act_load)


def act_load(paths, options):
    if options.source == "stop" and options.target is None:
        return stop(paths)
    if options.target is None or options.rate is None:
        raise state.usage("usage: lab load SOURCE TARGET RATE [--seconds N], or lab load stop")
    return load(paths, options)


def program():
    path = state.build_dir() + "/tests/tools/roceflow/roceflow"
    if not os.access(path, os.X_OK):
        raise state.LabError(f"{path} is not built; run `make tests` "
                             "(ESCAPEMENT_BUILD names another build folder)")
    return path


def start(paths, node, command, output, errors=None):
    """A process in the background must not hold the caller's pipes open."""
    def inside():
        os.setsid()
        enter.node_view(paths, node)
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=errors, cwd="/", preexec_fn=inside)
    except subprocess.SubprocessError as error:
        raise state.LabError(f"{node}: could not be entered: {error}") from None


def host_name(topology, name):
    port = show.find_host(topology, name)
    if "tap" in port:
        raise state.usage(f"'{name}' is an emulated machine; load runs between hosts")
    return port


def load(paths, options):
    topology = state.load_topology(paths)
    near, far = host_name(topology, options.source), host_name(topology, options.target)
    address = far["address6" if options.six else "address"]
    tool = program()
    command = [tool, "load", "--to", address, "--rate", str(options.rate), "--size",
               str(options.size), "--flows", str(options.flows)]
    if options.sport:
        command += ["--sport-mode", f"fixed:{options.sport[0]}"]
    if options.seconds:
        command += ["--seconds", str(options.seconds)]
    quiet = None if options.seconds else subprocess.DEVNULL
    sink = start(paths, far["name"], [tool, "sink", "--listen", address], subprocess.PIPE, quiet)
    running = [(far["name"], sink)]
    try:
        if sink.stdout.readline() != b"ready\n":
            raise state.LabError(f"no sink in {far['name']}: port 9 is in use there?")
        sender = start(paths, near["name"], command, subprocess.PIPE if options.seconds else quiet, quiet)
        running.append((near["name"], sender))
        if not options.seconds:
            return record(paths, running)
        text = sender.communicate()[0].decode().strip()
        if sender.returncode:
            raise state.LabError(f"roceflow load ended with {sender.returncode}")
    except BaseException:
        end(paths, [(node, child.pid) for node, child in running])
        raise
    end(paths, [(far["name"], sink.pid)])
    return text


def record(paths, running):
    for node, child in running:
        with open(f"{paths.loads}/{child.pid}", "w", encoding="ascii") as out:
            out.write(node)


def stop(paths):
    state.load_topology(paths)
    running = []
    for name in os.listdir(paths.loads):
        with open(f"{paths.loads}/{name}", encoding="ascii") as text:
            running.append((text.read(), int(name)))
    end(paths, running)
    for _, pid in running:
        os.unlink(f"{paths.loads}/{pid}")


def end(paths, running):
    """Ends these processes, if they are alive and in their node."""
    running = [pid for node, pid in running if processes.lives_in(paths, node, pid)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in running:
            processes.send(pid, number)
        if processes.wait_gone(lambda: not any(map(processes.alive, running)), STOP_S):
            return
