# SPDX-License-Identifier: BSD-2-Clause
"""Work in nodes by forked children, in parallel, with their errors."""
import os
import signal
import subprocess
import sys

from . import enter
from . import state

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def fork_each(names, work):
    """
    Runs work(name) in a child process for every name, in parallel. Raises
    LabError with the errors of all children. The parent never changes namespace.
    When it is interrupted the children are ended first: none runs during the
    cleanup.
    """
    children = []
    try:
        for name in names:
            _fork(children, work, name)
        errors = [error for child in children for error in _collect(child)]
    except BaseException:
        for child in children:
            _abandon(child)
        raise
    if errors:
        raise state.LabError("\n".join(errors))


def _fork(children, work, name):
    """A signal waits until the new child is on the list."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(writer, work, name, before)
        os.close(writer)
        children.append({"name": name, "pid": pid, "reader": reader})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _collect(child):
    """Waits for a child: its error, or nothing."""
    text = b""
    while part := os.read(child["reader"], 65536):
        text += part
    status = _reap(child)
    if status == 0:
        return []
    return [f"{child['name']}: {text.decode(errors='replace').strip() or 'ended by a signal'}"]


def _reap(child):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        # waitpid() does not block for long: the end of the pipe was read.
        _, status = os.waitpid(child["pid"], 0)
        os.close(child["reader"])
        child["pid"] = None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return status


def _abandon(child):
    if child["pid"] is not None:
        os.kill(child["pid"], signal.SIGKILL)
        _reap(child)


def _child(writer, work, name, mask):
    """Never returns, whatever @work does."""
    code = 1
    try:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work(name)
        code = 0
    except Exception as error:  # noqa: the parent gets all of them as text
        os.write(writer, (str(error) or repr(error)).encode())
    finally:
        os._exit(code)


def tool_batch(tool, lines, *options):
    """One `ip` or `tc` for many lines, in the network namespace this process is in."""
    if not lines:
        return
    done = subprocess.run([tool, *options, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise state.LabError(f"{tool} -batch: {done.stdout.strip()}")


def in_node(paths, node, work):
    """Runs work() in a child that is inside @node's network namespace only."""
    def inside(_):
        enter.netns_only(paths, node)
        work()
    fork_each([node], inside)
