# SPDX-License-Identifier: BSD-2-Clause
"""Work done inside nodes by forked children, all at once, with their errors brought back."""
import os
import signal
import subprocess
import sys

from . import enter
from . import state

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def fork_each(names, work):
    """
    Runs work(name) in a child process for every name, together. Raises
    LabError with every child's complaint. The parent never changes namespace.
    When it is interrupted the children are ended first: none works on behind
    the back of whoever clears up.
    """
    children = []
    try:
        for name in names:
            _fork(children, work, name)
        complaints = [said for child in children for said in _collect(child)]
    except BaseException:
        for child in children:
            _abandon(child)
        raise
    if complaints:
        raise state.LabError("\n".join(complaints))


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
    """Waits for a child; its complaint, or nothing."""
    said = b""
    while part := os.read(child["reader"], 65536):
        said += part
    status = _reap(child)
    if status == 0:
        return []
    return [f"{child['name']}: {said.decode(errors='replace').strip() or 'ended by a signal'}"]


def _reap(child):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        # Not blocking in waitpid for long: the pipe's end says that the child is through.
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
    except Exception as error:  # noqa: all of it goes back to the parent as text
        os.write(writer, (str(error) or repr(error)).encode())
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
