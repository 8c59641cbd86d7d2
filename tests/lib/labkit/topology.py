# SPDX-License-Identifier: BSD-2-Clause
"""
The parts of a lab as plain data, and the `ip` and `tc` lines that make them.
Nothing here touches the system.

Addresses: port P of leaf L is 10.L.P.0/24 and fd00:0:L:P::/64, the leaf .1, the
host .2. A leaf is reached by its aggregate 10.L.0.0/16, fd00:0:L::/48, so a
port plugged in later needs no new route. Links are 100.64.L.4(S-1)/30 below a
spine and 100.65.S.4(C-1)/30 above it. Interfaces are named after the node at
the other end; a host's are eth1 for rail 1, eth2 for rail 2 and so on, eth0 for
the front end. Rail K has leaves of its own; of each rail's leaves, and of the
spines, each pod has a part. Cores connect the spines of all pods.
"""
import random
import re

MAX_HOSTS, MAX_LEAVES, MAX_SPINES, MAX_PORTS = 250, 200, 60, 250
MAX_RAILS, MAX_PODS, MAX_CORES = 16, 16, 60
FIRST_IFINDEX = 100
HOST_INTERFACE, FRONTEND_INTERFACE = "eth1", "eth0"
TIER_LEAF, TIER_SPINE = 1, 2  # of a link: leaf to spine, spine to core; a host's has 0
FIRST_TABLE = 100  # of routes of a host's second interface and further ones
SECONDS_OF_BURST = 100e-6


def parse_rate(text):
    """'100mbit', '1g', '2.5gbit' as bits per second, None when it is no rate."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)(?:bit|bps)?", text.strip().lower())
    if not found:
        return None
    value = float(found[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[found[2]]
    return int(value) if 8000 <= value <= 1e12 else None


def parse_bytes(text):
    found = re.fullmatch(r"(\d+)([km]?)b?", text.strip().lower())
    return int(found[1]) * {"": 1, "k": 1000, "m": 1000000}[found[2]] if found else None


def leaf_number(node):
    return int(node[len("leaf"):])


def port_addresses(leaf, port):
    """The IPv4 and IPv6 ends of a leaf's port, and their MAC addresses."""
    return {
        "address": f"10.{leaf}.{port}.2", "prefix": 24, "gateway": f"10.{leaf}.{port}.1",
        "address6": f"fd00:0:{leaf:x}:{port:x}::2", "prefix6": 64,
        "gateway6": f"fd00:0:{leaf:x}:{port:x}::1",
        "mac": f"02:e5:c0:{leaf:02x}:{port:02x}:02",
        "gateway_mac": f"02:e5:c0:{leaf:02x}:{port:02x}:01",
    }


def draw_skew(hosts, seed):
    draw = random.Random(seed)
    for host in hosts:
        host["clock_offset_ns"] = draw.randint(-10**9, 10**9)
        host["clock_drift_ppb"] = draw.randint(-30000, 30000)


def place(i, count, parts):
    """The part of @count that number @i is in, from 0; they are as equal as can be."""
    return i * parts // count


def make(name, options):
    """@options: hosts_asked, leaves, spines, pods, cores, rails, frontend, mtu, rate_bps, queue_bytes, host_rate_bps,
    hash_seed, queues, icmp_interval_ms. leaves: of a rail, spines: of a pod."""
    ports, hosts, nics = {}, [], []
    per_rail, pods = options["leaves"], options["pods"]
    for i in range(options["hosts_asked"]):
        rack = place(i, options["hosts_asked"], per_rail)
        plugs = [(f"eth{rail}", "backend", rail, (rail - 1) * per_rail + rack + 1)
                 for rail in range(1, options["rails"] + 1)]
        if options["frontend"]:
            plugs.append((FRONTEND_INTERFACE, "frontend", None, options["rails"] * per_rail + 1))
        for number, (interface, plane, rail, leaf) in enumerate(plugs):
            ports[leaf] = ports.get(leaf, 0) + 1
            nic = {"name": f"h{i + 1}", "netns": f"{name}-h{i + 1}", "interface": interface,
                   "leaf": f"leaf{leaf}", "leaf_interface": f"h{i + 1}", "up": True,
                   "rate_bps": options["host_rate_bps"], "plane": plane, "rail": rail, "rack": rack + 1,
                   "pod": place(rack, per_rail, pods) + 1, "number": number, "loss": {},
                   **port_addresses(leaf, ports[leaf])}
            if number:
                nics.append(nic)
            else:
                hosts.append({**nic, "clock_offset_ns": 0, "clock_drift_ppb": 0})
    return {"lab": name, **options, "hosts": hosts, "nics": nics, "taps": [],
            "links": leaf_links(options) + core_links(options)}


def leaf_links(options):
    links = []
    for rail in range(1, options["rails"] + 1):
        for rack in range(options["leaves"]):
            pod = place(rack, options["leaves"], options["pods"])
            for spine in range(pod * options["spines"], (pod + 1) * options["spines"]):
                link = make_link((rail - 1) * options["leaves"] + rack + 1, spine + 1, options["rate_bps"])
                links.append({**link, "rail": rail, "pod": pod + 1})
    return links


def core_links(options):
    if options["pods"] == 1:
        return []
    return [{**make_core_link(spine + 1, core, options["rate_bps"]), "rail": None,
             "pod": spine // options["spines"] + 1}
            for spine in range(options["pods"] * options["spines"])
            for core in range(1, options["cores"] + 1)]


def make_link(leaf, spine, rate_bps):
    low = 4 * (spine - 1)
    return {"a": f"leaf{leaf}", "b": f"spine{spine}", "tier": TIER_LEAF,
            "a_interface": f"spine{spine}", "b_interface": f"leaf{leaf}",
            "a_address": f"100.64.{leaf}.{low + 1}", "b_address": f"100.64.{leaf}.{low + 2}",
            "a_address6": f"fd00:0:{0xf000 + leaf:x}:{spine:x}::1",
            "b_address6": f"fd00:0:{0xf000 + leaf:x}:{spine:x}::2",
            "a_mac": f"02:e5:c1:{leaf:02x}:{spine:02x}:01",
            "b_mac": f"02:e5:c1:{leaf:02x}:{spine:02x}:02",
            "rate_bps": rate_bps, "up": True, "converged": True, "loss": {}}


def make_core_link(spine, core, rate_bps):
    low = 4 * (core - 1)
    return {"a": f"spine{spine}", "b": f"core{core}", "tier": TIER_SPINE,
            "a_interface": f"core{core}", "b_interface": f"spine{spine}",
            "a_address": f"100.65.{spine}.{low + 1}", "b_address": f"100.65.{spine}.{low + 2}",
            "a_address6": f"fd00:0:{0xe000 + spine:x}:{core:x}::1",
            "b_address6": f"fd00:0:{0xe000 + spine:x}:{core:x}::2",
            "a_mac": f"02:e5:c2:{spine:02x}:{core:02x}:01",
            "b_mac": f"02:e5:c2:{spine:02x}:{core:02x}:02",
            "rate_bps": rate_bps, "up": True, "converged": True, "loss": {}}


def leaves(topology):
    """Those of the rails, and behind them that of the front end."""
    return [f"leaf{i + 1}" for i in range(topology["rails"] * topology["leaves"] + topology["frontend"])]


def spines(topology):
    return [f"spine{i + 1}" for i in range(topology["pods"] * topology["spines"])]


def cores(topology):
    return [f"core{i + 1}" for i in range(topology["cores"])] if topology["pods"] > 1 else []


def nodes(topology):
    return [h["name"] for h in topology["hosts"]] + leaves(topology) + spines(topology) + cores(topology)


def nics(topology):
    """Every interface of every host, the first ones first."""
    return topology["hosts"] + topology["nics"]


def pod_of_leaf(topology, leaf):
    """None: it is the front end's."""
    number = leaf_number(leaf) - 1
    if number >= topology["rails"] * topology["leaves"]:
        return None
    return place(number % topology["leaves"], topology["leaves"], topology["pods"]) + 1


def loopback(node):
    """The addresses of a leaf, spine or core, IPv4 and IPv6."""
    number = int(re.sub(r"\D", "", node))
    if node.startswith("leaf"):
        return f"10.{number}.0.1", f"fd00:0:{number:x}::1"
    if node.startswith("core"):
        return f"10.251.{number}.1", f"fd00:0:fb:{number:x}::1"
    return f"10.250.{number}.1", f"fd00:0:fa:{number:x}::1"


def veth_lines(topology):
    """
    Both ends are made inside their namespaces: a deleted namespace takes its
    devices along late, and an end in the root namespace would still be there.
    Interface numbers are unique in the lab, because the kernel delays carrier
    events by up to a second where both ends of a link have the same number.
    """
    lab, mtu = topology["lab"], topology["mtu"]
    queues = f"numtxqueues {topology['queues']} numrxqueues {topology['queues']}"
    index = FIRST_IFINDEX
    ends = [(h["name"], h["interface"], h["mac"], h["leaf"], h["leaf_interface"],
             h["gateway_mac"]) for h in nics(topology)]
    ends += [(k["a"], k["a_interface"], k["a_mac"], k["b"], k["b_interface"], k["b_mac"])
             for k in topology["links"]]
    for a, a_name, a_mac, b, b_name, b_mac in ends:
        yield (f"link add name {a_name} index {index} netns {lab}-{a} address {a_mac} "
               f"mtu {mtu} {queues} type veth peer name {b_name} index {index + 1} "
               f"netns {lab}-{b} address {b_mac} mtu {mtu} {queues}")
        index += 2


def host_lines(nic):
    """Of one interface. The first one has the default route; packets from the address of another one leave by that."""
    device = nic["interface"]
    lines = ["link set lo up", f"link set dev {device} up",
             f"addr add {nic['address']}/{nic['prefix']} dev {device}",
             f"addr add {nic['address6']}/{nic['prefix6']} dev {device} nodad",
             f"neigh replace {nic['gateway']} lladdr {nic['gateway_mac']} dev {device}",
             f"neigh replace {nic['gateway6']} lladdr {nic['gateway_mac']} dev {device}"]
    if not nic["number"]:
        return lines + route_lines(nic, "")
    return lines + route_lines(nic, f" table {FIRST_TABLE + nic['number']}")


def rule_lines(topology, node, six):
    """Of a host: which table has the routes of its second interface, and of further ones. `ip` wants the version."""
    found = [nic for nic in topology["nics"] if nic["name"] == node]
    return [f"rule add {what} lookup {FIRST_TABLE + nic['number']} pref {FIRST_TABLE + nic['number']}"
            for nic in found
            for what in (f"from {nic['address6' if six else 'address']}", f"oif {nic['interface']}")]


def route_lines(nic, table):
    return [f"route replace default via {nic[gateway]} dev {nic['interface']}{table}"
            for gateway in ("gateway", "gateway6")]


def port_lines(port):
    """A leaf's side of a host or tap."""
    device = port["leaf_interface"]
    return [f"link set dev {device} up",
            f"addr replace {port['gateway']}/{port['prefix']} dev {device}",
            f"addr replace {port['gateway6']}/{port['prefix6']} dev {device} nodad",
            f"neigh replace {port['address']} lladdr {port['mac']} dev {device}",
            f"neigh replace {port['address6']} lladdr {port['mac']} dev {device}"]


def link_end_lines(link, mine, other):
    device = link[mine + "_interface"]
    return [f"link set dev {device} up",
            f"addr replace {link[mine + '_address']}/30 dev {device}",
            f"addr replace {link[mine + '_address6']}/64 dev {device} nodad",
            f"neigh replace {link[other + '_address']} lladdr {link[other + '_mac']} dev {device}",
            f"neigh replace {link[other + '_address6']} lladdr {link[other + '_mac']} dev {device}"]


def loopback_lines(node):
    v4, v6 = loopback(node)
    return ["link set lo up", f"addr replace {v4}/32 dev lo", f"addr replace {v6}/128 dev lo nodad"]


def leaf_lines(topology, leaf):
    lines = loopback_lines(leaf)
    for port in nics(topology) + topology["taps"]:
        if port["leaf"] == leaf:
            lines += port_lines(port)
    for link in topology["links"]:
        if link["a"] == leaf:
            lines += link_end_lines(link, "a", "b")
    return lines + leaf_route_lines(topology, leaf)


def leaf_route_lines(topology, leaf):
    """Equal-cost routes to every other leaf: over the spines to which both have a link, to another pod over all."""
    mine = {k["b"]: k for k in topology["links"] if k["a"] == leaf and k["converged"]}
    lines = []
    for other in leaves(topology):
        if other == leaf:
            continue
        theirs = {k["b"] for k in topology["links"] if k["a"] == other and k["converged"]}
        same_pod = pod_of_leaf(topology, other) == pod_of_leaf(topology, leaf)
        hops = [mine[spine] for spine in mine if spine in theirs or (theirs and not same_pod)]
        lines += leaf_aggregate_lines(other, hops, "b", "a")
    for spine, link in mine.items():
        lines += loopback_route_lines(spine, [link], "b", "a")
    return lines


def route_over(prefix, prefix6, hops, far, near):
    """Equal-cost routes over links, of which @far is the next hop's end."""
    if not hops:
        return []
    return [f"route replace {to}" + "".join(
        f" nexthop via {k[far + address]} dev {k[near + '_interface']}" for k in hops)
            for to, address in ((prefix, "_address"), (prefix6, "_address6"))]


def leaf_aggregate_lines(leaf, hops, far, near):
    number = leaf_number(leaf)
    return route_over(f"10.{number}.0.0/16", f"fd00:0:{number:x}::/48", hops, far, near)


def loopback_route_lines(node, hops, far, near):
    v4, v6 = loopback(node)
    return route_over(f"{v4}/32", f"{v6}/128", hops, far, near)


def spine_link_lines(link):
    """The upper end of a link, which is lost when the link goes down."""
    if link["tier"] == TIER_SPINE:
        return link_end_lines(link, "b", "a") + loopback_route_lines(link["a"], [link], "a", "b")
    number, device = leaf_number(link["a"]), link["b_interface"]
    return link_end_lines(link, "b", "a") + [
        f"route replace 10.{number}.0.0/16 via {link['a_address']} dev {device}",
        f"route replace fd00:0:{number:x}::/48 via {link['a_address6']} dev {device}"]


def spine_lines(topology, spine):
    lines = loopback_lines(spine)
    up = [link for link in topology["links"] if link["a"] == spine]
    for link in topology["links"]:
        if link["b"] == spine:
            lines += spine_link_lines(link)
    for link in up:
        lines += link_end_lines(link, "a", "b")
    return lines + spine_route_lines(topology, spine)


def spine_route_lines(topology, spine):
    """To the leaves of other pods, over the cores."""
    up = [link for link in topology["links"] if link["a"] == spine and link["converged"]]
    lines = []
    for leaf in leaves(topology):
        if up and pod_of_leaf(topology, leaf) not in (None, up[0]["pod"]):
            lines += leaf_aggregate_lines(leaf, up, "b", "a")
    for link in up:
        lines += loopback_route_lines(link["b"], [link], "b", "a")
    return lines


def core_lines(topology, core):
    lines = loopback_lines(core)
    for link in topology["links"]:
        if link["b"] == core:
            lines += link_end_lines(link, "b", "a")
    return lines + core_route_lines(topology, core)


def core_route_lines(topology, core):
    """To each leaf over the spines of its pod to which it has a link."""
    down = {link["a"]: link for link in topology["links"]
            if link["b"] == core and link["converged"] and link["up"]}
    lines = []
    for leaf in leaves(topology):
        over = {k["b"] for k in topology["links"] if k["a"] == leaf and k["converged"]}
        lines += leaf_aggregate_lines(leaf, [down[spine] for spine in down if spine in over], "a", "b")
    for spine, link in down.items():
        lines += loopback_route_lines(spine, [link], "a", "b")
    return lines


def ip_lines(topology, node):
    for prefix, lines in (("leaf", leaf_lines), ("spine", spine_lines), ("core", core_lines)):
        if node.startswith(prefix):
            return lines(topology, node)
    return [line for nic in nics(topology) if nic["name"] == node for line in host_lines(nic)]


def tbf_line(topology, device, rate_bps):
    burst = max(2 * (topology["mtu"] + 18), int(rate_bps / 8 * SECONDS_OF_BURST))
    return (f"qdisc replace dev {device} root tbf rate {rate_bps}bit "
            f"burst {burst} limit {max(topology['queue_bytes'], burst)}")


def hash_line_pair(device, bpf_object):
    return [f"qdisc add dev {device} clsact",
            f"filter add dev {device} ingress prio 9 bpf da obj {bpf_object} sec tc"]


def tc_lines(topology, node, bpf_object):
    lines = []
    for port in nics(topology):
        if port["leaf"] == node:
            lines += hash_line_pair(port["leaf_interface"], bpf_object)
        if port["rate_bps"] and node in (port["leaf"], port["name"]):
            device = port["interface"] if node == port["name"] else port["leaf_interface"]
            lines.append(tbf_line(topology, device, port["rate_bps"]))
    for link in topology["links"]:
        for end in "ab":
            if link[end] == node and link["rate_bps"]:
                lines.append(tbf_line(topology, link[end + "_interface"], link["rate_bps"]))
    return lines


def devices(topology, node):
    """Every interface of @node that the lab made, taps aside."""
    found = [h["interface"] for h in nics(topology) if h["name"] == node]
    found += [h["leaf_interface"] for h in nics(topology) if h["leaf"] == node]
    for link in topology["links"]:
        found += [link[end + "_interface"] for end in "ab" if link[end] == node]
    return found
