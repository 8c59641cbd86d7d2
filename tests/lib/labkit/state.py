# SPDX-License-Identifier: BSD-2-Clause
"""The state of a lab: /run/escapement-lab/$LAB, one folder per node."""
import fcntl
import json
import os
import re
import shutil

ROOT = "/run/escapement-lab"
NETNS_DIR = "/run/netns"
# Folders of the daemon of which each host has its own, in its folder of that name.
DAEMON_FOLDERS = {"run": "/run/escapement", "state": "/var/lib/escapement", "logs": "/var/log/escapement"}
MADE = ROOT + "/.made-"  # and the name: the lab made the mount point


class LabError(RuntimeError):
    """A sentence for the user. status 2: wrong arguments, 1: it failed."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def usage(text):
    return LabError(text, 2)


class Paths:
    """All paths of the lab named @name."""

    def __init__(self, name):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
            raise usage(f"LAB={name!r} is no name for a lab; use letters, digits, - and _")
        self.name = name
        self.root = f"{ROOT}/{name}"
        self.topology = self.root + "/topology.json"
        self.owned = self.root + "/owned.json"
        self.members = self.root + "/members.json"
        self.loads = self.root + "/loads"

    def node(self, node, *more):
        return "/".join((self.root, node) + more)

    def netns_name(self, node):
        return f"{self.name}-{node}"

    def netns(self, node):
        return f"{NETNS_DIR}/{self.netns_name(node)}"


def lab_paths():
    return Paths(os.environ.get("LAB") or "esc")


def build_dir():
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))))
    return os.path.abspath(os.environ.get("ESCAPEMENT_BUILD") or here + "/build")


def need_root():
    if os.geteuid() != 0:
        raise LabError("the lab makes network namespaces; run it as root (sudo)")


class Lock:
    """One process at a time changes a lab: a flock on the state folder itself, so that no file is left."""

    def __enter__(self):
        while True:
            os.makedirs(ROOT, exist_ok=True)
            self.fd = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            try:
                if os.stat(ROOT).st_ino == os.fstat(self.fd).st_ino:
                    return self
            except FileNotFoundError:
                pass
            os.close(self.fd)  # the folder was removed with the last lab

    def __exit__(self, *_):
        _remove_root_if_empty()
        os.close(self.fd)


def _remove_root_if_empty():
    left = os.listdir(ROOT) if os.path.isdir(ROOT) else []
    made = [os.path.basename(MADE) + name for name in DAEMON_FOLDERS]
    if left and set(left) <= set(made):
        for name, folder in DAEMON_FOLDERS.items():
            if os.path.basename(MADE) + name not in left:
                continue
            try:
                os.rmdir(folder)
            except OSError:
                pass  # in use by another process
            os.unlink(MADE + name)
        left = []
    if not left:
        try:
            os.rmdir(ROOT)
        except OSError:
            pass


def make_daemon_folders():
    """The mount points for each host's own folders; made only if they are missing."""
    for name, folder in DAEMON_FOLDERS.items():
        if not os.path.isdir(folder):
            with open(MADE + name, "w", encoding="ascii"):
                pass
            os.mkdir(folder)


def write_json(path, value):
    """Written to another file and renamed: a reader never gets an incomplete file."""
    aside = path + ".new"
    with open(aside, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1)
        out.write("\n")
    os.rename(aside, path)


def read_json(path, default=None):
    try:
        with open(path, encoding="utf-8") as text:
            return json.load(text)
    except FileNotFoundError:
        return default


def load_topology(paths):
    topology = read_json(paths.topology)
    if topology is None:
        raise LabError(f"lab '{paths.name}' is not up; run `lab up` first")
    return topology


def save_topology(paths, topology):
    write_json(paths.topology, topology)


def remove_tree(paths):
    """Removes the lab's folder. It has no mounts any more, or is left."""
    for base, folders, _ in os.walk(paths.root):
        for folder in folders:
            if os.path.ismount(f"{base}/{folder}"):
                raise LabError(f"{base}/{folder} is still mounted; unmount it, then `lab down`")
    if os.path.isdir(paths.root):
        shutil.rmtree(paths.root)
