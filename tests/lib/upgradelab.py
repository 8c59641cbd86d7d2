# SPDX-License-Identifier: BSD-2-Clause
"""The commands of docs/upgrade.md, run as they are printed: its blocks "```sh NAME", with a stand-in for ssh that enters
a node of the lab, where /etc/escapement is the host's folder, and for apt-get that starts another build there."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile

import labtest
import undo
from labkit import state

MANUAL = os.path.join(labtest.TOP, "docs", "upgrade.md")
ETC = "/etc/escapement"
LIB = os.path.join(labtest.TOP, "tests", "lib")
TIMEOUT_S = 500

SSH = """#!/usr/bin/python3
import os, sys
sys.path.append({lib!r})
from labkit import commands, enter, state
from labkit import syscalls as sc
host, words, paths = sys.argv[1], sys.argv[2:], state.Paths({lab!r})
if words[0] == "apt-get":
    release = words[-1].partition("=")[2]
    os.environ["ESCAPEMENT_BUILD"] = {folder!r} + "/" + release
    commands.run(paths, ["restart", host])
    with open({folder!r} + "/release-" + host, "w") as out:
        out.write(release)
    sys.exit()
enter.node_view(paths, host)
sc.mount(os.path.dirname(paths.node(host, "x")), {etc!r}, None, sc.MS_BIND)
os.environ["PATH"] = {build!r} + ":" + os.environ["PATH"]
os.execvp("sh", ["sh", "-c", " ".join(words)])
"""

# The daemon reads its keys below /etc/escapement, as on a host.
DAEMON = """#!/usr/bin/python3
import os, sys
sys.path.append({lib!r})
from labkit import syscalls as sc
sc.mount(os.path.dirname(sys.argv[sys.argv.index("-c") + 1]), {etc!r}, None, sc.MS_BIND)
os.execv({program!r}, [{program!r}] + sys.argv[1:])
"""


def blocks():
    """{NAME: text} of the manual."""
    with open(MANUAL, encoding="utf-8") as text:
        return dict(re.findall(r"^```sh (\w+)\n(.*?)^```$", text.read(), re.MULTILINE | re.DOTALL))


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, 0o755)


class Manual:
    """An administrator's shell, in a folder with the file `hosts`. @releases: {version: build folder}; the first is the
    one that the hosts have. The daemons are restarted, so that they see /etc/escapement."""

    def __init__(self, lab, hosts, releases):
        self.lab, self.hosts, self.builds = lab, hosts, releases or {"0.1.0": labtest.BUILD}
        self.blocks, self.folder = blocks(), tempfile.mkdtemp(prefix="escapement-upgrade-")

    def __enter__(self):
        self.made = not os.path.isdir(ETC)
        if self.made:
            undo.register("rmdir", ETC)
            os.mkdir(ETC)
        write_program(self.folder + "/ssh", SSH.format(lib=LIB, lab=self.lab.name, folder=self.folder, etc=ETC,
                                                       build=labtest.BUILD))
        for release, build in self.builds.items():
            os.mkdir(f"{self.folder}/{release}")
            write_program(f"{self.folder}/{release}/escapementd", DAEMON.format(lib=LIB, etc=ETC,
                                                                               program=build + "/escapementd"))
            os.symlink(build + "/escapement", f"{self.folder}/{release}/escapement")
        with open(self.folder + "/hosts", "w", encoding="ascii") as out:
            out.write("".join(f"{host}\n" for host in self.hosts))
        for host in self.hosts:
            self.shell(f"ssh {host} apt-get install escapement={next(iter(self.builds))}")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)
        if self.made:
            with contextlib.suppress(OSError):
                os.rmdir(ETC)

    def shell(self, script):
        env = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        done = subprocess.run(["sh", "-c", script], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
        if done.returncode:
            raise RuntimeError(f"{script}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *names):
        """These blocks in one shell; what they print."""
        return self.shell("\n".join(self.blocks[name] for name in names))

    def read(self, name):
        with open(f"{self.folder}/{name}", "rb") as file:
            return file.read()

    def configuration(self, host):
        with open(state.Paths(self.lab.name).node(host, "escapement.yaml"), encoding="utf-8") as file:
            return file.read()

    def releases(self):
        return {host: self.read(f"release-{host}").decode() for host in self.hosts}

    def batches(self):
        """Those behind the canary's."""
        names = sorted(name for name in os.listdir(self.folder) if re.fullmatch(r"batch\.[a-z]+", name))
        return [self.read(name).decode().split() for name in names]
