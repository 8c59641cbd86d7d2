# SPDX-License-Identifier: BSD-2-Clause
"""
The parts of a lab as plain data, and the `ip` and `tc` lines that make them.
Nothing here touches the system.

Addresses: port P of leaf L is 10.L.P.0/24 and fd00:0:L:P::/64, the leaf .1, the
host .2. A leaf is reached by its aggregate 10.L.0.0/16, fd00:0:L::/48, so a
port plugged in later needs no new route. Links are 100.64.L.4(S-1)/30.
Interfaces are named after the node at the other end; a host's is eth1.
"""
import random
import re

MAX_HOSTS, MAX_LEAVES, MAX_SPINES, MAX_PORTS = 250, 200, 60, 250
FIRST_IFINDEX = 100
HOST_INTERFACE = "eth1"
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


def make(name, options):
    """@options: hosts_asked, leaves, spines, mtu, rate_bps, queue_bytes, host_rate_bps, hash_seed,
    queues, icmp_interval_ms."""
    ports = {}
    hosts = []
    for i in range(options["hosts_asked"]):
        leaf = i * options["leaves"] // options["hosts_asked"] + 1
        ports[leaf] = ports.get(leaf, 0) + 1
        hosts.append({"name": f"h{i + 1}", "netns": f"{name}-h{i + 1}",
                      "interface": HOST_INTERFACE, "leaf": f"leaf{leaf}",
                      "leaf_interface": f"h{i + 1}", "up": True,
                      "clock_offset_ns": 0, "clock_drift_ppb": 0,
                      "rate_bps": options["host_rate_bps"],
                      **port_addresses(leaf, ports[leaf])})
    links = [make_link(leaf, spine, options["rate_bps"])
             for leaf in range(1, options["leaves"] + 1)
             for spine in range(1, options["spines"] + 1)]
    return {"lab": name, **options, "hosts": hosts, "links": links, "taps": []}


def make_link(leaf, spine, rate_bps):
    low = 4 * (spine - 1)
    return {"a": f"leaf{leaf}", "b": f"spine{spine}",
            "a_interface": f"spine{spine}", "b_interface": f"leaf{leaf}",
            "a_address": f"100.64.{leaf}.{low + 1}", "b_address": f"100.64.{leaf}.{low + 2}",
            "a_address6": f"fd00:0:{0xf000 + leaf:x}:{spine:x}::1",
            "b_address6": f"fd00:0:{0xf000 + leaf:x}:{spine:x}::2",
            "a_mac": f"02:e5:c1:{leaf:02x}:{spine:02x}:01",
            "b_mac": f"02:e5:c1:{leaf:02x}:{spine:02x}:02",
            "rate_bps": rate_bps, "converged": True}


def leaves(topology):
    return [f"leaf{i + 1}" for i in range(topology["leaves"])]


def spines(topology):
    return [f"spine{i + 1}" for i in range(topology["spines"])]


def nodes(topology):
    return [h["name"] for h in topology["hosts"]] + leaves(topology) + spines(topology)


def loopback(node):
    """The addresses of a leaf or spine, IPv4 and IPv6."""
    number = int(re.sub(r"\D", "", node))
    if node.startswith("leaf"):
        return f"10.{number}.0.1", f"fd00:0:{number:x}::1"
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
             h["gateway_mac"]) for h in topology["hosts"]]
    ends += [(k["a"], k["a_interface"], k["a_mac"], k["b"], k["b_interface"], k["b_mac"])
             for k in topology["links"]]
    for a, a_name, a_mac, b, b_name, b_mac in ends:
        yield (f"link add name {a_name} index {index} netns {lab}-{a} address {a_mac} "
               f"mtu {mtu} {queues} type veth peer name {b_name} index {index + 1} "
               f"netns {lab}-{b} address {b_mac} mtu {mtu} {queues}")
        index += 2


def host_lines(host):
    device = host["interface"]
    return ["link set lo up", f"link set dev {device} up",
            f"addr add {host['address']}/{host['prefix']} dev {device}",
            f"addr add {host['address6']}/{host['prefix6']} dev {device} nodad",
            f"neigh replace {host['gateway']} lladdr {host['gateway_mac']} dev {device}",
            f"neigh replace {host['gateway6']} lladdr {host['gateway_mac']} dev {device}",
            f"route replace default via {host['gateway']} dev {device}",
            f"route replace default via {host['gateway6']} dev {device}"]


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
    for port in topology["hosts"] + topology["taps"]:
        if port["leaf"] == leaf:
            lines += port_lines(port)
    for link in topology["links"]:
        if link["a"] == leaf:
            lines += link_end_lines(link, "a", "b")
    return lines + leaf_route_lines(topology, leaf)


def leaf_route_lines(topology, leaf):
    """Equal-cost routes to every other leaf, over the spines to which both have a link."""
    mine = {k["b"]: k for k in topology["links"] if k["a"] == leaf and k["converged"]}
    lines = []
    for other in leaves(topology):
        if other == leaf:
            continue
        theirs = {k["b"] for k in topology["links"] if k["a"] == other and k["converged"]}
        hops = [mine[spine] for spine in mine if spine in theirs]
        if not hops:
            continue
        number = leaf_number(other)
        lines.append(f"route replace 10.{number}.0.0/16" + "".join(
            f" nexthop via {k['b_address']} dev {k['a_interface']}" for k in hops))
        lines.append(f"route replace fd00:0:{number:x}::/48" + "".join(
            f" nexthop via {k['b_address6']} dev {k['a_interface']}" for k in hops))
    for spine, link in mine.items():
        v4, v6 = loopback(spine)
        lines.append(f"route replace {v4}/32 via {link['b_address']} dev {link['a_interface']}")
        lines.append(f"route replace {v6}/128 via {link['b_address6']} dev {link['a_interface']}")
    return lines


def spine_link_lines(link):
    """The spine's end of a link, which is lost when the link goes down."""
    number, device = leaf_number(link["a"]), link["b_interface"]
    return link_end_lines(link, "b", "a") + [
        f"route replace 10.{number}.0.0/16 via {link['a_address']} dev {device}",
        f"route replace fd00:0:{number:x}::/48 via {link['a_address6']} dev {device}"]


def spine_lines(topology, spine):
    lines = loopback_lines(spine)
    for link in topology["links"]:
        if link["b"] == spine:
            lines += spine_link_lines(link)
    return lines


def ip_lines(topology, node):
    if node.startswith("leaf"):
        return leaf_lines(topology, node)
    if node.startswith("spine"):
        return spine_lines(topology, node)
    return host_lines(next(h for h in topology["hosts"] if h["name"] == node))


def tbf_line(topology, device, rate_bps):
    burst = max(2 * (topology["mtu"] + 18), int(rate_bps / 8 * SECONDS_OF_BURST))
    return (f"qdisc replace dev {device} root tbf rate {rate_bps}bit "
            f"burst {burst} limit {max(topology['queue_bytes'], burst)}")


def hash_line_pair(device, bpf_object):
    return [f"qdisc add dev {device} clsact",
            f"filter add dev {device} ingress prio 1 bpf da obj {bpf_object} sec tc"]


def tc_lines(topology, node, bpf_object):
    lines = []
    for port in topology["hosts"]:
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
    found = [h["interface"] for h in topology["hosts"] if h["name"] == node]
    found += [h["leaf_interface"] for h in topology["hosts"] if h["leaf"] == node]
    for link in topology["links"]:
        found += [link[end + "_interface"] for end in "ab" if link[end] == node]
    return found
