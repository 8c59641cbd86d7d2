# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces and mounts, straight from the C library: `lab exec` is used too often to fork tools."""
import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_MOVE, MS_REC = 0x1000, 0x2000, 0x4000
MS_SLAVE, MS_SHARED = 1 << 19, 1 << 20
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _path(text):
    return None if text is None else os.fsencode(text)


def setns_net(path):
    """Moves this process into the network namespace held by the file @path."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, CLONE_NEWNET), f"setns {path}")
    finally:
        os.close(fd)


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def mount(source, target, kind=None, flags=0):
    _check(_libc.mount(_path(source), _path(target), _path(kind), ctypes.c_ulong(flags), None),
           f"mount {source or kind} on {target}")


def umount(target):
    """Detaches @target; one that is not mounted (any more) is no error."""
    if _libc.umount2(_path(target), MNT_DETACH) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOENT):
            raise OSError(code, f"umount {target}: {os.strerror(code)}")
