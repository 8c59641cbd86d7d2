# SPDX-License-Identifier: BSD-2-Clause
"""Commands in a guest, over its virtio-serial ports."""
import base64
import collections
import json
import os
import socket
import time

from . import state
from .errors import VmError

PORTS = 12  # commands at a time in one guest: QEMU serves one client a socket
LEAVE_SECONDS = 0.2  # how soon a command that is to be left is left
RC_LEFT = 124
GRACE_SECONDS = 15  # beyond the command's own limit, for a guest that is busy

Result = collections.namedtuple("Result", "rc out err")


def socket_path(name, number):
    return os.path.join(state.folder(name), f"port{number}.sock")


def send_request(name, request, seconds, on_output=None, leave=None):
    """Sends one request and waits for its end.

    `on_output(stream, bytes)` sees output as it comes. When the threading.Event `leave` is set
    the channel is closed, which ends the command in the guest.
    """
    state.guest(name)
    texts = {"out": b"", "err": b""}
    with state.Lock(os.path.join(state.folder(name), "port"), PORTS) as lock, \
            socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(socket_path(name, lock.number))
        except (FileNotFoundError, ConnectionRefusedError):
            raise VmError(f"guest {name} does not run: 'vm status'") from None
        ident = f"{os.getpid()}.{time.monotonic_ns()}"
        # The first newline ends a line that an earlier client did not complete.
        text = json.dumps(dict(request, id=ident, timeout=seconds))
        link.sendall(f"\n{text}\n".encode())
        deadline = time.monotonic() + seconds + GRACE_SECONDS
        for message in messages(link, name, deadline, leave):
            if message.get("id") != ident:
                continue  # of a command that another client has left
            for stream in ("out", "err"):
                if stream in message:
                    data = base64.b64decode(message[stream])
                    texts[stream] += data
                    if on_output:
                        on_output(stream, data)
            if "rc" in message:
                return result_of(message["rc"], texts)
    if leave and leave.is_set():
        return result_of(RC_LEFT, texts)
    raise VmError(f"guest {name} closed the channel: it crashed? See "
                  f"{state.folder(name)}/console.log")


def result_of(rc, texts):
    return Result(rc, texts["out"].decode("utf-8", "replace"),
                  texts["err"].decode("utf-8", "replace"))


def messages(link, name, deadline, leave):
    """Lines of JSON from the guest until it closes; incomplete ones of other clients are skipped."""
    data = b""
    link.settimeout(LEAVE_SECONDS)
    while not (leave and leave.is_set()):
        try:
            chunk = link.recv(262144)
        except socket.timeout:
            if time.monotonic() > deadline:
                raise VmError(f"guest {name} does not reply") from None
            continue
        except ConnectionResetError:
            return
        if not chunk:
            return
        data += chunk
        *lines, data = data.split(b"\n")
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                pass


def run(name, argv, seconds=120, on_output=None, leave=None):
    """Runs argv in a guest; returns Result(rc, out, err). rc 124: it ran out of time."""
    return send_request(name, {"argv": list(argv)}, seconds, on_output, leave)


def read(name, argv, seconds=60):
    """Runs argv, which must succeed; returns its output."""
    result = run(name, argv, seconds)
    if result.rc:
        raise VmError(f"guest {name}: '{' '.join(argv)}' failed (exit {result.rc}): "
                      f"{result.err.strip() or result.out.strip()}")
    return result.out


def wait_listen(name, where, seconds=20):
    """Waits until a program in the guest listens on a TCP port or a socket's path. False when none does."""
    return send_request(name, {"listen": where}, seconds).rc == 0
