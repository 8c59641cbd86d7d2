# SPDX-License-Identifier: BSD-2-Clause
"""The guests' kernel: a Debian package, unpacked and never installed, and its initramfs."""
import collections
import glob
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile

from . import state
from .errors import Unavailable

CACHE = os.environ.get("ESCAPEMENT_CACHE", "/var/cache/escapement-tests")
SERIES = os.environ.get("ESCAPEMENT_VM_KERNEL", "6.12")
PACKAGE = re.compile(rf"^linux-image-({re.escape(SERIES)}\.\d+[^-]*(?:-\d+)?)-amd64(-unsigned)?$")
INIT = os.path.join(state.TOP, "tests", "vm", "guest", "init")
BUSYBOX = "/bin/busybox"
# Needed before the host's root is there to load modules from, then what every boot
# loads anyway: from the initramfs, unpacked, that is a second faster than modprobe.
MODULES = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "virtio_net", "rdma_rxe", "ib_uverbs", "rdma_ucm",
           "sch_ingress", "sch_fq", "cls_bpf", "cls_matchall", "act_gact"]
# For guests with a disk.
DISK_MODULES = ["virtio_blk", "ext4", "crc32c_generic"]
TRIED_PACKAGES = 3

Image = collections.namedtuple("Image", "kernel initramfs modules release")


def version_key(package):
    """Sorts packages by version; of one version the signed variant comes last."""
    version, unsigned = PACKAGE.match(package).groups()
    return [int(n) for n in re.findall(r"\d+", version)], not unsigned


def unpacked_packages():
    """Folders of the kernels in the cache, newest first."""
    names = [name for name in os.listdir(CACHE) if PACKAGE.match(name)] \
        if os.path.isdir(CACHE) else []
    return [os.path.join(CACHE, name) for name in sorted(names, key=version_key, reverse=True)]


def known_packages():
    done = subprocess.run(["apt-cache", "pkgnames", f"linux-image-{SERIES}."],
                          stdout=subprocess.PIPE, text=True, check=False)
    names = [name for name in done.stdout.split() if PACKAGE.match(name)]
    return sorted(names, key=version_key, reverse=True)


def unpack(deb, package):
    """Unpacks into the cache under the package's name, whole or not at all."""
    staging = tempfile.mkdtemp(prefix=".unpack-", dir=CACHE)
    try:
        subprocess.run(["dpkg", "-x", deb, staging], check=True)
        if not os.path.isdir(os.path.join(staging, "lib/modules")):
            os.symlink("usr/lib", os.path.join(staging, "lib"))
        release = os.listdir(os.path.join(staging, "lib/modules"))[0]
        subprocess.run(["depmod", "-b", staging, release], check=True)
        os.chmod(staging, 0o755)
        os.rename(staging, os.path.join(CACHE, package))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def download(report):
    """Gets the newest kernel package that the mirrors really have."""
    packages = known_packages()
    if not packages:
        raise Unavailable(f"apt knows no linux-image-{SERIES}.*-amd64 package: it needs Debian 12 "
                          "with bookworm-security (or newer) in its sources, and apt-get update")
    for package in packages[:TRIED_PACKAGES]:
        report(f"downloading {package} (about 107 MB) to {CACHE}; it is unpacked there, "
            "not installed")
        with tempfile.TemporaryDirectory(prefix=".download-", dir=CACHE) as folder:
            done = subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
                                   package], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            debs = glob.glob(os.path.join(folder, "*.deb"))
            if done.returncode == 0 and debs:
                unpack(debs[0], package)
                return os.path.join(CACHE, package)
            lines = done.stdout.strip().splitlines() or ["apt-get said nothing"]
            report(f"{package} could not be had: {lines[-1]}")
    raise Unavailable(f"none of {', '.join(packages[:TRIED_PACKAGES])} could be downloaded")


def module_order(tree, wanted):
    """Paths of modules and all they depend on, each after what it needs."""
    needs, path_of = {}, {}
    with open(os.path.join(tree, "modules.dep"), encoding="ascii") as lines:
        for line in lines:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
            path_of[os.path.basename(path).split(".")[0].replace("-", "_")] = path
    order = []

    def add(path):
        for need in needs[path]:
            add(need)
        if path not in order:
            order.append(path)

    for module in wanted:
        if module in path_of:
            add(path_of[module])  # else built in: then virtio_net, rdma_rxe need nothing here
    return order


def write_module(source, target):
    """Copies a module, unpacked: busybox's insmod reads no xz."""
    with open(source, "rb") as file:
        data = file.read()
    if source.endswith(".xz"):
        data = lzma.decompress(data)
    elif source.endswith(".zst"):
        data = subprocess.run(["zstd", "-dc", source], stdout=subprocess.PIPE, check=True).stdout
    elif source.endswith(".gz"):
        data = subprocess.run(["gzip", "-dc", source], stdout=subprocess.PIPE, check=True).stdout
    with open(target, "wb") as file:
        file.write(data)


def build_initramfs(tree, target):
    """busybox, our init, the modules. Not compressed: the guest would be slow to unpack it."""
    with tempfile.TemporaryDirectory(prefix=".initramfs-", dir=CACHE) as root:
        for folder in ("bin", "modules", "proc", "sys", "dev", "ro", "rw", "new"):
            os.mkdir(os.path.join(root, folder))
        shutil.copy(BUSYBOX, os.path.join(root, "bin/busybox"))
        shutil.copy(INIT, os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        first = module_order(tree, MODULES)
        disk = [path for path in module_order(tree, DISK_MODULES) if path not in first]
        for name, order in (("order", first), ("order.disk", disk)):
            with open(os.path.join(root, "modules", name), "w", encoding="ascii") as file:
                for path in order:
                    module = os.path.basename(path).split(".ko")[0] + ".ko"
                    write_module(os.path.join(tree, path), os.path.join(root, "modules", module))
                    file.write(module + "\n")
        with open(target + ".new", "wb") as out:
            subprocess.run("find . | cpio --quiet -o -H newc", shell=True, cwd=root, stdout=out,
                           check=True)
    os.rename(target + ".new", target)


def digest_of(package):
    """Identifies what an initramfs was made from."""
    digest = hashlib.sha256(repr((package, MODULES, DISK_MODULES, os.stat(BUSYBOX).st_mtime_ns)).encode())
    for path in (INIT, os.path.abspath(__file__)):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def check_tools():
    for tool, package in (("qemu-system-x86_64", "qemu-system-x86"), ("cpio", "cpio"),
                          ("depmod", "kmod"), ("ib_write_bw", "perftest"),
                          ("rdma", "iproute2"), ("tcpdump", "tcpdump")):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Unavailable(f"{tool} is not here: install the package {package}")
    if not os.access(BUSYBOX, os.X_OK):
        raise Unavailable(f"{BUSYBOX} is not here: install the package busybox-static")


def prepare(report):
    """Makes kernel and initramfs ready in the cache. Does nothing when they are."""
    check_tools()
    os.makedirs(CACHE, exist_ok=True)
    here = unpacked_packages()
    folder = here[0] if here else download(report)
    release = os.listdir(os.path.join(folder, "lib/modules"))[0]
    tree = os.path.join(folder, "lib/modules", release)
    initramfs = os.path.join(folder, f"initramfs-{digest_of(folder)}.cpio")
    if not os.path.exists(initramfs):
        report(f"building {initramfs}")
        for old in glob.glob(os.path.join(folder, "initramfs-*")):
            os.unlink(old)
        build_initramfs(tree, initramfs)
    return Image(os.path.join(folder, f"boot/vmlinuz-{release}"), initramfs,
                 os.path.join(folder, "lib/modules"), release)
