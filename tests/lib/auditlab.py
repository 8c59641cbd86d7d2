# SPDX-License-Identifier: BSD-2-Clause
"""What namespaces lack for an audit of a lab's host: RDMA ports, as files below its own /sys; and Debian's lldpd."""
import os
import subprocess

import audittree
import labtest

# Replaces /sys by the host's own devices and a folder of RDMA devices, in the mounts of one command.
VIEW = ("set -e; stage=$1 ports=$2; shift 2; mount -t tmpfs none $stage; mkdir -p $stage/class/net $stage/class/infiniband "
        "$stage/devices; mount --rbind /sys/devices $stage/devices; mount --bind /sys/class/net $stage/class/net; "
        "mount --bind $ports $stage/class/infiniband; if [ -d $ports/../pci ]; then mkdir -p $stage/bus/pci/devices; "
        "mount --bind $ports/../pci $stage/bus/pci/devices; fi; mount --move $stage /sys; exec \"$@\"")
# A /run with lldpd's folder and the labs', lldpd's user, and a host name that resolves.
LLDPD_VIEW = ("set -e; name=$1 folder=$2; shift 2; sed '$a _lldpd:x:64999:64999::/nonexistent:/bin/false' /etc/passwd "
              ">$folder/passwd; sed '$a _lldpd:x:64999:' /etc/group >$folder/group; echo 127.0.1.1 $name >$folder/hosts; "
              "for file in passwd group hosts; do mount --bind $folder/$file /etc/$file; done; "
              "mkdir $folder/new; mount -t tmpfs none $folder/new; mkdir -p $folder/new/lldpd $folder/new/escapement-lab; "
              "mount -n --bind /run/escapement-lab $folder/new/escapement-lab; mount -n --move $folder/new /run; "
              "hostname $name; exec \"$@\"")
LLDPD, LLDPCLI = (f"{labtest.CACHE}/lldpd/usr/sbin/{name}" for name in ("lldpd", "lldpcli"))
LIBRARIES = ":".join(f"{labtest.CACHE}/{package}/usr/lib/x86_64-linux-gnu" for package in ("lldpd", "libsnmp40", "libwrap0"))


class Port:
    """The RDMA port of a network device, of mlx5's driver: RoCE, active."""

    def __init__(self, folder, number, rail, interface, address):
        """@folder: of the RDMA devices of its host, of which it is number @rail."""
        self.folder, self.device = folder, f"mlx5_{rail}"
        for name, content in (("ports/1/state", "4: ACTIVE"), ("ports/1/phys_state", "5: LinkUp"),
                              ("ports/1/rate", "400 Gb/sec (4X NDR)"), ("ports/1/link_layer", "Ethernet"),
                              ("node_guid", f"946d:ae03:{number:04x}:{rail:04x}"), ("fw_ver", "28.43.2026"),
                              ("device", f"->../bus/{rail}")):
            self.put(name, content)
        audittree.put(folder, f"bus/{rail}/driver", "->../drivers/mlx5_core")
        for index, kind in enumerate(("IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2")):
            self.put(f"ports/1/gids/{index}", f"fe80:0000:0000:0000:0000:0000:{number:04x}:{rail:04x}")
            self.put(f"ports/1/gid_attrs/types/{index}", kind)
            self.put(f"ports/1/gid_attrs/ndevs/{index}", interface)
        self.gid(address)

    def put(self, name, content):
        audittree.put(os.path.join(self.folder, self.device), name, content)

    def gid(self, address):
        octets = [int(part) for part in address.split(".")]
        for index in (2, 3):
            self.put(f"ports/1/gids/{index}", "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(octets))


def start(lab, host, folder, *words):
    """A command in @host that sees the RDMA devices of @folder/ports, in the background; a program in @folder goes first."""
    os.makedirs(folder + "/stage", exist_ok=True)
    return lab.start(host, "sh", "-c", "PATH=" + folder + ":$PATH; " + VIEW, "view", folder + "/stage", folder + "/ports", *words)


class Lldpd:
    """lldpd of @node, named like it; a `with` block ends it. @options: of lldpd."""

    def __init__(self, lab, node, folder, *options):
        os.makedirs(folder, exist_ok=True)
        self.socket = folder + "/socket"
        inside = lab.inside(node)
        self.process = subprocess.Popen(
            ["unshare", "--uts", "sh", "-c", LLDPD_VIEW, "view", node, folder, LLDPD, "-d", "-u", self.socket, "-L", LLDPCLI,
             "-O", "/dev/null", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=inside["preexec_fn"], env=dict(inside["env"], LD_LIBRARY_PATH=LIBRARIES))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def client(self, *words):
        """(exit code, stdout, stderr) of lldpcli."""
        return labtest.run([LLDPCLI, "-u", self.socket, *words], env=dict(os.environ, LD_LIBRARY_PATH=LIBRARIES))


def write_program(folder, name, text):
    """A program in @folder, of lines of shell."""
    path = f"{folder}/{name}"
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)
