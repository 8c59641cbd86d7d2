# SPDX-License-Identifier: BSD-2-Clause
"""Reading a lab: status, addresses, and the spine a 5-tuple takes."""
import json
import subprocess

from . import daemons
from . import state
from . import topology as topo

HOST_KEYS = ("name", "address", "address6", "prefix", "prefix6", "gateway", "mac", "interface",
             "netns", "leaf", "leaf_interface", "clock_offset_ns", "clock_drift_ppb")
LINK_KEYS = ("a", "b", "a_interface", "b_interface", "a_address", "b_address", "tier", "rail", "pod")
NIC_KEYS = ("interface", "plane", "rail", "address", "address6", "mac", "gateway", "leaf", "leaf_interface")
TAP_KEYS = ("leaf", "netns", "tap", "address", "prefix", "gateway", "address6", "prefix6",
            "gateway6", "mac", "gateway_mac", "mtu")


def tool_json(paths, node, *command):
    done = subprocess.run([command[0], "-j", "-n", paths.netns_name(node), *command[1:]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise state.LabError(f"{node}: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout or "[]")


def operational(paths, topology):
    """{(node, interface): bool} for the interfaces of leaves, and of spines below cores."""
    found = {}
    for leaf in topo.leaves(topology) + (topo.spines(topology) if topo.cores(topology) else []):
        for link in tool_json(paths, leaf, "ip", "link", "show"):
            found[leaf, link["ifname"]] = link["operstate"] == "UP"
    return found


def with_rate(record, entry):
    """What does not apply is absent: a core's link is of no rail."""
    if record["rate_bps"]:
        entry["rate_bps"] = record["rate_bps"]
    if record["loss"]:
        entry["loss"] = record["loss"]
    return {key: value for key, value in entry.items() if value is not None}


def nic_entry(nic, up):
    return with_rate(nic, {**{key: nic[key] for key in NIC_KEYS}, "tier": 0,
                           "up": up[nic["leaf"], nic["leaf_interface"]]})


def status(paths):
    topology = state.load_topology(paths)
    up = operational(paths, topology)
    hosts = []
    for host in topology["hosts"]:
        entry = with_rate(host, {key: host[key] for key in HOST_KEYS})
        entry["up"] = up[host["leaf"], host["leaf_interface"]]
        pid = daemons.pid_of(paths, host["name"])
        if pid:
            entry["pid"] = pid
        entry["pod"], entry["rack"] = host["pod"], host["rack"]
        entry["nics"] = [nic_entry(nic, up) for nic in topo.nics(topology) if nic["name"] == host["name"]]
        hosts.append(entry)
    links = [with_rate(k, {**{key: k[key] for key in LINK_KEYS}, "up": up[k["a"], k["a_interface"]]})
             for k in topology["links"]]
    taps = [{key: t[key] for key in TAP_KEYS} for t in topology["taps"]]
    whole = {"lab": paths.name, "root": paths.root, "mtu": topology["mtu"],
             "leaves": topo.leaves(topology), "spines": topo.spines(topology),
             "cores": topo.cores(topology), "pods": topology["pods"], "rails": topology["rails"],
             "hosts": hosts, "links": links, "taps": taps}
    if "skew_seed" in topology:
        whole["skew_seed"] = topology["skew_seed"]
    return whole


def rate_text(record):
    text = f"{record['rate_bps'] / 1e6:g} Mb/s" if "rate_bps" in record else "no limit"
    return text + "".join(f", {share:g}% lost to {node}" for node, share in record.get("loss", {}).items())


def nic_text(nic):
    return (f"rail {nic['rail']}" if "rail" in nic else "front end") + ", " + rate_text(nic)


def link_text(whole, link):
    """Where there are several: its pod and rail."""
    return (f"pod {link['pod']}, " if whole["pods"] > 1 else "") + \
        (f"rail {link['rail']}, " if whole["rails"] > 1 and "rail" in link else "")


def status_text(whole):
    cores = f"{len(whole['cores'])} cores, {whole['pods']} pods, " if whole["cores"] else ""
    lines = [f"lab {whole['lab']}: {len(whole['hosts'])} hosts, {len(whole['leaves'])} leaves, "
             f"{len(whole['spines'])} spines, {cores}MTU {whole['mtu']}"]
    if "skew_seed" in whole:
        lines.append(f"clock skew drawn from seed {whole['skew_seed']}")
    for h in whole["hosts"]:
        skew = (f"  clock {h['clock_offset_ns']:+d} ns {h['clock_drift_ppb']:+d} ppb"
                if "skew_seed" in whole else "")
        daemon = f"escapementd {h['pid']}" if "pid" in h else "no daemon"
        lines.append(f"  {h['name']:<5} {h['address']:<13} {h['address6']:<18} {h['interface']} "
                     f"at {h['leaf']:<7} {'up' if h['up'] else 'down':<5} {daemon}{skew}")
        for n in h["nics"][1:]:
            lines.append(f"  {'':<5} {n['address']:<13} {n['address6']:<18} {n['interface']} at {n['leaf']:<7} "
                         f"{'up' if n['up'] else 'down':<5} {nic_text(n)}")
    for t in whole["taps"]:
        lines.append(f"  tap {t['tap']} at {t['leaf']}: {t['address']} {t['address6']} {t['mac']}")
    for k in whole["links"]:
        lines.append(f"  {k['a']:<7} -- {k['b']:<8} {'up' if k['up'] else 'down':<5} {link_text(whole, k)}{rate_text(k)}")
    return "\n".join(lines)


def find_host(topology, name):
    """A host by its first interface, or a tap under its name."""
    for port in topology["hosts"] + topology["taps"]:
        if name in (port.get("name"), port.get("tap")):
            return port
    raise state.usage(f"no host '{name}' in lab '{topology['lab']}'; `lab status` lists them")


def address(paths, node, six):
    topology = state.load_topology(paths)
    if node in topo.leaves(topology) + topo.spines(topology) + topo.cores(topology):
        return topo.loopback(node)[six]
    return find_host(topology, node)["address6" if six else "address"]


def path(paths, source, target, sports, options):
    """[(source port, spine or leaf)], by the kernel's routing, for each source port."""
    topology = state.load_topology(paths)
    near, far = find_host(topology, source), find_host(topology, target)
    key = "address6" if options.six else "address"
    lines = [f"route get {far[key]} from {near[key]} iif {near['leaf_interface']} "
             f"ipproto {options.proto} sport {sport} dport {options.dport}" for sport in sports]
    done = subprocess.run(["ip", "-j", "-n", paths.netns_name(near["leaf"]), "-batch", "-"],
                          input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise state.LabError(f"{near['leaf']}: no route from {source} to {target}: "
                             f"{done.stderr.strip()}")
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(done.stdout.rstrip()):
        reply, end = decoder.raw_decode(done.stdout, at)
        at = end + len(done.stdout[end:]) - len(done.stdout[end:].lstrip())
        found += [route["dev"] for route in reply]
    # An uplink is named after its spine; a port on the same leaf after its host.
    return [(sport, dev if dev in topo.spines(topology) else near["leaf"])
            for sport, dev in zip(sports, found)]
