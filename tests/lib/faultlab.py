# SPDX-License-Identifier: BSD-2-Clause
"""What tests/fault does to a host of a lab: full and hung disks, a journal that is not read, very many cgroups and
members. Each is undone by what is returned or by end()."""
import contextlib
import json
import os
import subprocess
import sys

import labtest
import tcplab
import undo
from labkit import state
from labkit import syscalls as sc

TOOLS = os.path.join(labtest.BUILD, "tests", "tools")
HUNG_MOUNT = os.path.join(labtest.TOP, "tests", "tools", "hung_mount")
FOLDERS = ("textfile", "state", "logs")  # that the daemon writes to
DISK_BYTES = 2 << 20
PATIENCE_S = 30
JOURNAL = "/run/systemd/journal"

# As journald: takes lines by a stream (what a service prints) and entries by datagrams, appended to a file each.
SINK = r"""
import os, selectors, socket, sys
folder = sys.argv[1]
pick, stream, entries = selectors.DefaultSelector(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX,
                                                                                                  socket.SOCK_DGRAM)
stream.bind(folder + "/stdout")
stream.listen()
entries.bind(folder + "/socket")
pick.register(stream, selectors.EVENT_READ)
pick.register(entries, selectors.EVENT_READ)
print("ready", flush=True)
with open(folder + "/lines", "ab", 0) as lines, open(folder + "/entries", "ab", 0) as taken:
    while True:
        for key, _ in pick.select():
            if key.fileobj is stream:
                pick.register(stream.accept()[0], selectors.EVENT_READ)
            elif key.fileobj is entries:
                taken.write(entries.recv(1 << 16))
            else:
                got = key.fileobj.recv(1 << 16)
                lines.write(got)
                if not got:
                    pick.unregister(key.fileobj)
"""

# A daemon as systemd starts it: its stderr is a stream of the journal.
SERVICE = """#!/usr/bin/python3
import os, socket, sys
sys.path.append({lib!r})
from labkit import syscalls as sc
folder = os.path.dirname(sys.argv[sys.argv.index("-c") + 1]) + "/journal"
if os.path.isdir(folder):
    stream = socket.socket(socket.AF_UNIX)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream.connect(folder + "/stdout")
    os.dup2(stream.fileno(), 2)
    sc.mount(folder, {journal!r}, None, sc.MS_BIND)
    os.environ["JOURNAL_STREAM"] = "1:1"
os.execv({program!r}, sys.argv)
"""


class Disk:
    """A small file system of their own for all that the daemon of @host writes; made before it starts."""

    def __init__(self, lab, host):
        paths = state.Paths(lab.name)
        self.folders = [paths.node(host, name) for name in FOLDERS]
        for folder in self.folders:
            undo.register("umount", "-l", folder)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "none", folder], check=True)

    def fill(self):
        """All that is free now; what is being written may then free more: to be repeated."""
        for folder in self.folders:
            with contextlib.suppress(OSError), open(folder + "/ballast", "ab", 0) as file:
                while file.write(bytes(4096)):
                    pass

    def clear(self):
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder + "/ballast")

    def close(self):
        for folder in self.folders:
            sc.umount(folder)


class HungDisk:
    """File systems that do not respond, where the daemon @pid of @host writes; in its own view alone."""

    def __init__(self, lab, host, pid):
        folders = [state.Paths(lab.name).node(host, "textfile"),
                   *(path for name, path in state.DAEMON_FOLDERS.items() if name in FOLDERS)]
        self.process = subprocess.Popen(["nsenter", "-t", pid, "-m", HUNG_MOUNT, *folders], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "mounted":
            raise RuntimeError(f"hung_mount: {self.process.communicate()[1]}")

    def end(self):
        self.process.communicate(timeout=PATIENCE_S)


class Journal:
    """The journal of @host; service() is the program that the lab starts as its daemon."""

    def __init__(self, lab, host):
        self.folder = state.Paths(lab.name).node(host, "journal")
        self.made = []
        for path in (os.path.dirname(JOURNAL), JOURNAL):  # where there is no systemd
            if not os.path.isdir(path):
                undo.register("rmdir", path)
                os.mkdir(path)
                self.made.append(path)
        os.mkdir(self.folder)
        self.sink = subprocess.Popen([sys.executable, "-c", SINK, self.folder], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, text=True)
        self.sink.stdout.readline()

    def service(self):
        path = self.folder + "/escapementd"
        with open(path, "w", encoding="ascii") as file:
            file.write(SERVICE.format(lib=os.path.join(labtest.TOP, "tests", "lib"), journal=JOURNAL,
                                      program=labtest.BUILD + "/escapementd"))
        os.chmod(path, 0o755)
        return path

    def stop(self, stopped):
        self.sink.send_signal(19 if stopped else 18)

    def read(self, what):
        """`lines` or `entries`."""
        with open(f"{self.folder}/{what}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        self.sink.kill()
        self.sink.communicate()
        for name in os.listdir(self.folder):
            os.unlink(f"{self.folder}/{name}")
        os.rmdir(self.folder)
        for path in reversed(self.made):
            with contextlib.suppress(OSError):
                os.rmdir(path)


class Cgroups:
    """@count cgroups below one of its own, of which a class of TCP pacing matches every thousandth."""

    def __init__(self, count):
        top = tcplab.cgroup_root()
        if not top:
            raise RuntimeError("no unified cgroup hierarchy is mounted")
        self.path = os.path.join(top, f"escapement-fault{os.getpid()}")
        undo.register("find", self.path, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+")
        os.mkdir(self.path)
        for i in range(count):
            if i % 100 == 0:
                os.mkdir(f"{self.path}/{i // 100}")
            else:
                os.mkdir(f"{self.path}/{i // 100}/{'job' if i % 1000 == 1 else i % 100}")

    def config(self):
        return (f"pace:\n  tcp: {{ mode: measure, cgroup: {self.path} }}\n"
                "  classes:\n  - { name: job, cgroup: \"*/job\" }\n")

    def close(self):
        for top, folders, _ in os.walk(self.path, topdown=False):
            for folder in folders:
                with contextlib.suppress(OSError):
                    os.rmdir(f"{top}/{folder}")
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


class Config:
    """The configuration of @host, with a members file of its own."""

    def __init__(self, lab, host):
        paths = state.Paths(lab.name)
        self.path, self.members = paths.node(host, "escapement.yaml"), paths.node(host, "members.json")
        with open(paths.members, encoding="ascii") as file:
            self.list = json.load(file)
        with open(self.path, encoding="ascii") as file:
            self.text = file.read().replace(paths.members, self.members)
        self.write_members(0)
        self.write("")

    def write(self, more):
        with open(self.path, "w", encoding="ascii") as file:
            file.write(self.text + more)

    def write_members(self, count):
        """Those of the lab and @count others, in one step."""
        others = [{"targets": [f"10.{100 + i // 65536}.{i // 256 % 256}.{i % 256}"],
                   "labels": {"host": f"other{i}", "rack": f"rack{i // 40}"}} for i in range(count)]
        with open(self.members + ".new", "w", encoding="ascii") as file:
            json.dump(self.list + others, file)
        os.rename(self.members + ".new", self.members)
