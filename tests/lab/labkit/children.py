# SPDX-License-Identifier: BSD-2-Clause
"""Work done inside nodes by forked children, all at once, with their errors brought back."""
import os
import signal
import subprocess
import sys

from . import enter
from . import state


def fork_each(names, work):
    """
    Runs work(name) in a child process for every name, together. Raises
    LabError with every child's complaint. The parent never changes namespace.
    """
    children = []
    for name in names:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(writer, work, name)
        os.close(writer)
        children.append((name, pid, reader))
    complaints = []
    for name, pid, reader in children:
        with os.fdopen(reader, encoding="utf-8", errors="replace") as text:
            said = text.read().strip()
        _, status = os.waitpid(pid, 0)
        if status != 0:
            complaints.append(f"{name}: {said or 'ended by a signal'}")
    if complaints:
        raise state.LabError("\n".join(complaints))


def _child(writer, work, name):
    """Never returns, whatever @work does."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work(name)
        code = 0
    except Exception as error:  # noqa: all of it goes back to the parent as text
        os.write(writer, str(error).encode())
    finally:
        os._exit(code)


def tool_batch(tool, lines):
    """One `ip` or `tc` for many lines, in the network namespace this process is in."""
    if not lines:
        return
    done = subprocess.run([tool, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise state.LabError(f"{tool} -batch: {done.stdout.strip()}")


def in_node(paths, node, work):
    """Runs work() in a child that is inside @node's network namespace only."""
    def inside(_):
        enter.netns_only(paths, node)
        work()
    fork_each([node], inside)
