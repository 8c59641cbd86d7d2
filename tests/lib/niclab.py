# SPDX-License-Identifier: BSD-2-Clause
"""Two NICs for each of a lab's hosts, on different leaves; NICs that fail, by carrier or silently."""
import json
import os
import re

import labtest

SECOND = "eth2"
SECOND_PORT = 200  # of the leaf: 10.LEAF.200.0/24


def second_of(lab, name):
    """The second NIC of a host: on the next leaf."""
    leaf = int(lab.host(name)["leaf"][len("leaf"):]) + 1
    return {"host": name, "leaf": f"leaf{leaf}", "leaf_interface": f"{name}b",
            "address": f"10.{leaf}.{SECOND_PORT}.2", "gateway": f"10.{leaf}.{SECOND_PORT}.1",
            "address6": f"fd00:0:{leaf:x}:c8::2", "gateway6": f"fd00:0:{leaf:x}:c8::1"}


def ip(lab, node, *lines):
    for line in lines:
        code, out, err = labtest.run(["ip", "-n", f"{lab.name}-{node}", *line.split()])
        if code:
            raise RuntimeError(f"{node}: ip {line}: {err or out}")


def plug(lab, name):
    """A second NIC, its addresses, and a default route with a high metric."""
    nic = second_of(lab, name)
    plug_nic(lab, name, nic, SECOND, 2000)
    return nic


def plug_nic(lab, name, nic, near, metric):
    """@nic as second_of() has it, with the interface @near."""
    far = nic["leaf_interface"]
    ip(lab, name, f"link add {near} type veth peer name {far} netns {lab.name}-{nic['leaf']}")
    macs = {}
    for node, device in ((name, near), (nic["leaf"], far)):
        ip(lab, node, f"link set {device} up")
        shown = labtest.run(["ip", "-n", f"{lab.name}-{node}", "-j", "link", "show", device])[1]
        macs[device] = json.loads(shown)[0]["address"]
    for family, address, gateway, bits in (("-4", nic["address"], nic["gateway"], 24),
                                           ("-6", nic["address6"], nic["gateway6"], 64)):
        nodad = " nodad" if family == "-6" else ""
        ip(lab, name, f"address add {address}/{bits} dev {near}{nodad}",
           f"neighbour replace {gateway} lladdr {macs[far]} dev {near}",
           f"{family} route add default via {gateway} dev {near} metric {metric}")
        ip(lab, nic["leaf"], f"address add {gateway}/{bits} dev {far}{nodad}",
           f"neighbour replace {address} lladdr {macs[near]} dev {far}")


def configure(lab, nics, extra):
    """`sibling` in every host's file, and the NICs in the members list."""
    for name in nics:
        path = f"/run/escapement-lab/{lab.name}/{name}/escapement.yaml"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = text.replace("    plane: backend\n", f"    plane: backend\n    sibling: {SECOND}\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + extra)
    members = re.search(r"members: (\S+)", text)[1]
    with open(members, encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        host, nic = lab.host(entry["labels"]["host"]), nics[entry["labels"]["host"]]
        entry["labels"]["nics"] = (f"{host['address']}|{nic['address']}, "
                                   f"{host['address6']}|{nic['address6']}")
    with open(members + ".new", "w", encoding="utf-8") as file:
        json.dump(entries, file)
    os.rename(members + ".new", members)


DUMMY = "roce0"


def dummy_address(lab, name):
    return f"10.{int(lab.host(name)['leaf'][len('leaf'):])}.220.2"


def add_dummies(lab, nics):
    """A device like those of `failover dummy add` above the first NIC of each host (a veth: the machine's kernel may
    have no dummies), with the route that the host would announce; in the configurations and the members file as well,
    after which daemons have to reload."""
    for name in nics:
        host = lab.host(name)
        ip(lab, name, f"link add {DUMMY} type veth peer name {DUMMY}x", f"link set {DUMMY}x up",
           f"link set {DUMMY} mtu 1400 up", f"address add {dummy_address(lab, name)}/32 dev {DUMMY}",
           f"neighbour replace 169.254.77.1 lladdr 02:e5:ca:00:00:01 dev {DUMMY} nud permanent",
           *(f"route replace {dummy_address(lab, other)}/32 via 169.254.77.1 dev {DUMMY} onlink"
             for other in nics if other != name))
        ip(lab, host["leaf"], f"route replace {dummy_address(lab, name)}/32 via {host['address']} "
           f"dev {host['leaf_interface']}")
        edit(config_path(lab, name), "sibling: eth2\n", f"sibling: eth2\n    dummy: {DUMMY}\n")
    with open(config_path(lab, next(iter(nics))), encoding="utf-8") as file:
        members = re.search(r"members: (\S+)", file.read())[1]
    for name, nic in nics.items():
        pair = f"{lab.host(name)['address']}|{nic['address']}"
        edit(members, pair, f"{pair}, {dummy_address(lab, name)}={pair}")


def config_path(lab, name):
    return f"/run/escapement-lab/{lab.name}/{name}/escapement.yaml"


def edit(path, old, new):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if old not in text:
        raise RuntimeError(f"{path} has no {old!r}")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    os.rename(path + ".new", path)


class Fault:
    """A NIC that fails for the duration of the block. @nic: 1 or 2 of the host."""

    def __init__(self, lab, name, nic, how):
        self.lab, self.how = lab, how
        if nic == 1:
            host = lab.host(name)
            self.leaf, self.device = host["leaf"], host["leaf_interface"]
            self.addresses = (host["address"], host["address6"])
        else:
            second = second_of(lab, name)
            self.leaf, self.device = second["leaf"], second["leaf_interface"]
            self.addresses = (second["address"], second["address6"])
        self.neighbours = []

    def rules(self, verb):
        """Silent failure: the leaf drops packets from and to the NIC."""
        for family, address in zip(("-4", "-6"), self.addresses):
            ip(self.lab, self.leaf, f"{family} rule {verb} pref 1 iif {self.device} blackhole",
               f"{family} rule {verb} pref 2 to {address} blackhole")

    def __enter__(self):
        if self.how == "silent":
            self.rules("add")
            return self
        shown = labtest.run(["ip", "-n", f"{self.lab.name}-{self.leaf}", "-j", "neighbour", "show",
                             "dev", self.device, "nud", "permanent"])[1]
        self.neighbours = [(entry["dst"], entry["lladdr"]) for entry in json.loads(shown)]
        shown = labtest.run(["ip", "-n", f"{self.lab.name}-{self.leaf}", "-6", "-j", "address", "show",
                             "dev", self.device, "scope", "global"])[1]
        self.six = [f"{entry['local']}/{entry['prefixlen']}"
                    for entry in json.loads(shown)[0]["addr_info"] if "local" in entry]
        ip(self.lab, self.leaf, f"link set {self.device} down")
        return self

    def __exit__(self, *_):
        if self.how == "silent":
            self.rules("del")
            return
        ip(self.lab, self.leaf, f"link set {self.device} up",
           *(f"address replace {address} dev {self.device} nodad" for address in self.six),
           *(f"neighbour replace {address} lladdr {mac} dev {self.device}"
             for address, mac in self.neighbours))
