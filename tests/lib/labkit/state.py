# SPDX-License-Identifier: BSD-2-Clause
"""Where a lab keeps what it knows: /run/escapement-lab/$LAB, one folder a node."""
import fcntl
import json
import os
import re
import shutil

ROOT = "/run/escapement-lab"
NETNS_DIR = "/run/netns"
DAEMON_RUN = "/run/escapement"
MADE_RUN = ROOT + "/.made-run"


class LabError(Exception):
    """A sentence for the user. status 2: asked wrongly, 1: it did not work."""

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
    """One at a time changes any lab: a flock on the state folder itself, so no file is left."""

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
            os.close(self.fd)  # the last lab went down and took the folder along

    def __exit__(self, *_):
        _remove_root_if_empty()
        os.close(self.fd)


def _remove_root_if_empty():
    left = os.listdir(ROOT) if os.path.isdir(ROOT) else []
    if left == [os.path.basename(MADE_RUN)]:
        try:
            os.rmdir(DAEMON_RUN)
        except OSError:
            pass  # somebody else uses it by now
        os.unlink(MADE_RUN)
        left = []
    if not left:
        try:
            os.rmdir(ROOT)
        except OSError:
            pass


def make_daemon_run():
    """The place in /run that each host's own folder is laid over; made here only when missing."""
    if os.path.isdir(DAEMON_RUN):
        return
    with open(MADE_RUN, "w", encoding="ascii"):
        pass
    os.mkdir(DAEMON_RUN)


def write_json(path, value):
    """Aside and renamed: a reader never sees half of it."""
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
    """Removes the lab's folder. Its mounts are gone by now, or it is left alone."""
    for base, folders, _ in os.walk(paths.root):
        for folder in folders:
            if os.path.ismount(f"{base}/{folder}"):
                raise LabError(f"{base}/{folder} is still mounted; unmount it, then `lab down`")
    if os.path.isdir(paths.root):
        shutil.rmtree(paths.root)
