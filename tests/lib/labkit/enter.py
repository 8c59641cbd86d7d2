# SPDX-License-Identifier: BSD-2-Clause
"""Entering a node: its network, and its own view of /sys and /run."""
import os

from . import state
from . import syscalls as sc

# Mounts below /sys that do not belong to one network namespace stay reachable.
KEPT = ("fs/cgroup", "kernel/tracing", "kernel/debug", "kernel/security")


def netns_only(paths, node):
    try:
        sc.setns_net(paths.netns(node))
    except FileNotFoundError:
        if not os.path.exists(paths.topology):
            raise state.LabError(
                f"lab '{paths.name}' is not up; run `lab up` first") from None
        raise state.usage(f"no node '{node}' in lab '{paths.name}'; "
                          "`lab status` lists them") from None


def node_view(paths, node):
    """
    Moves this process into @node. The mounts live in a private namespace: they
    end with the last process in it. /sys/fs/bpf and on a host the folders of the daemon
    (state.DAEMON_FOLDERS) are its own, so that the daemon's default paths work on every host.
    """
    netns_only(paths, node)
    sc.unshare(sc.CLONE_NEWNS)
    sc.mount("none", "/", None, sc.MS_REC | sc.MS_SLAVE)
    stage = paths.node(node, "sys")
    sc.mount("sysfs", stage, "sysfs", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    device = os.stat("/sys").st_dev
    for below in KEPT:
        try:
            if os.stat("/sys/" + below).st_dev == device:
                continue
            sc.mount("/sys/" + below, f"{stage}/{below}", None, sc.MS_BIND | sc.MS_REC)
        except FileNotFoundError:
            pass
    sc.mount(paths.node(node, "bpf"), stage + "/fs/bpf", None, sc.MS_BIND)
    for name, folder in state.DAEMON_FOLDERS.items():
        if os.path.isdir(paths.node(node, name)):
            sc.mount(paths.node(node, name), folder, None, sc.MS_BIND)
    sc.mount(stage, "/sys", None, sc.MS_MOVE)


def environment():
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    os.environ["PATH"] = state.build_dir() + ":" + path


def run(paths, node, command):
    """Becomes @command inside @node. Does not return."""
    node_view(paths, node)
    environment()
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        raise state.LabError(f"{command[0]}: command not found", 127) from None
    except PermissionError:
        raise state.LabError(f"{command[0]}: cannot be executed", 126) from None
