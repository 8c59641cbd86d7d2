# SPDX-License-Identifier: BSD-2-Clause
"""Hosts with two rails and a front-end NIC, a leaf each: the NIC of rail 2 is on the next leaf, the front-end NIC on the
one behind that."""
import json
import os

import clocklab
import labtest
import niclab
from labkit import build

HOSTS, LEAVES = 4, 6
OPTIONS = ("--hosts", str(HOSTS), "--leaves", str(LEAVES), "--rate", "1gbit", "--queues", "1", "--skew", "15")
NICS = {"eth1": ("backend", "1"), "eth2": ("backend", "2"), "eth3": ("frontend", None)}


def extra(lab, name, number):
    leaf, port = (int(lab.host(name)["leaf"][len("leaf"):]) + number - 2) % LEAVES + 1, 200 + number
    return {"host": name, "leaf": f"leaf{leaf}", "leaf_interface": f"{name}n{number}",
            "address": f"10.{leaf}.{port}.2", "gateway": f"10.{leaf}.{port}.1",
            "address6": f"fd00:0:{leaf:x}:{port:x}::2", "gateway6": f"fd00:0:{leaf:x}:{port:x}::1"}


def plug(lab):
    """All NICs of all hosts, and the members file. Returns {host: {interface: address}}."""
    nics = {}
    for host in lab.status()["hosts"]:
        name = host["name"]
        nics[name] = {"eth1": host["address"]}
        for number in (2, 3):
            nic = extra(lab, name, number)
            niclab.plug_nic(lab, name, nic, f"eth{number}", 2000 + number)
            native_xdp(lab, nic)
            nics[name][f"eth{number}"] = nic["address"]
        configure(lab, name)
    write_members(lab, members(lab, nics))
    return nics


def native_xdp(lab, nic):
    """On the leaf's end, without which the host's program cannot send by XDP_TX."""
    niclab.ip(lab, nic["leaf"], f"link set dev {nic['leaf_interface']} xdpdrv obj {build.bpf_object()} sec xdp.frags")


def configure(lab, name):
    niclab.edit(niclab.config_path(lab, name), "    plane: backend\n",
                "    plane: backend\n"
                "  - name: eth2\n    plane: backend\n"
                "  - name: eth3\n    plane: frontend\n")


def members(lab, nics):
    racks = {host["name"]: host["leaf"] for host in lab.status()["hosts"]}
    entries = []
    for name, addresses in nics.items():
        for interface, address in addresses.items():
            plane, rail = NICS[interface]
            labels = {"host": name, "rack": racks[name], "plane": plane}
            if rail:
                labels["rail"] = rail
            entries.append({"targets": [address], "labels": labels})
    return entries


def write_members(lab, entries):
    path = clocklab.path_of(lab, "members.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(entries, file)
    os.rename(path + ".new", path)


def peers(lab, host, interface=None):
    return [peer for peer in lab.json(host, "peers")["peers"] if interface in (None, peer["interface"])]


def all_up(lab, hosts):
    return labtest.wait_for(lambda: all(peers(lab, host) and all(p["state"] == "up" for p in peers(lab, host))
                                        for host in hosts), 60, 0.1)


def nic(lab, host, interface):
    """As `status` has it."""
    return next(nic for plane in lab.json(host, "status")["probing"]["planes"] for nic in plane["nics"]
                if nic["interface"] == interface)


def known_nic(lab, host, interface):
    """The same; None until the daemon knows how far its timestamps are from those of the others."""
    found = nic(lab, host, interface)
    return found if "timestamps_offset_ns" in found else None
