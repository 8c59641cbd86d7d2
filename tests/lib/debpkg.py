# SPDX-License-Identifier: BSD-2-Clause
"""The Debian packages of this tree."""
import glob
import os
import re
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = ("build", ".git", "__pycache__")


class PackageError(RuntimeError):
    """The end of a build's output."""


def run(argv, cwd, env=None):
    done = subprocess.run(argv, cwd=cwd, env=dict(os.environ, **(env or {})), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise PackageError(f"{' '.join(argv)}: exit {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-25:]))
    return done.stdout


def build(folder, objects=None):
    """
    Builds the packages of a copy of the tree in @folder, without a network. {package: path}.

    @objects: a build folder whose programs are packaged as they are, which saves the compiler.
    """
    tree = os.path.join(folder, "escapement")
    shutil.copytree(TOP, tree, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
    if objects:
        # With their times, so that make finds nothing to do; its rules depend on no flags.
        shutil.copytree(objects, os.path.join(tree, "build"), symlinks=True,
                        ignore=shutil.ignore_patterns("tests", "san", "check", "fuzz"))
        subprocess.run(["make", "-t", "-s", "all"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    run(["unshare", "-n", "dpkg-buildpackage", "-b", "-us", "-uc"] + (["-nc"] if objects else []), tree,
        {"DEB_BUILD_OPTIONS": f"parallel={os.cpu_count()} noautodbgsym"})
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(os.path.join(folder, "*.deb"))}


def changes(folder):
    return glob.glob(os.path.join(folder, "*.changes"))[0]


def later(path, folder, version):
    """The same package as @path with another version."""
    tree = os.path.join(folder, "tree")
    run(["dpkg-deb", "-R", path, tree], folder)
    control = os.path.join(tree, "DEBIAN/control")
    with open(control, encoding="utf-8") as file:
        text = re.sub(r"^Version: .*$", f"Version: {version}", file.read(), flags=re.M)
    with open(control, "w", encoding="utf-8") as file:
        file.write(text)
    out = os.path.join(folder, f"{os.path.basename(path).split('_')[0]}_{version}.deb")
    run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, out], folder)
    shutil.rmtree(tree)
    return out
