# SPDX-License-Identifier: BSD-2-Clause
"""Changes of a lab that is up: taps, links that are cut, restored or limited."""
import re

from . import build
from . import children
from . import enter
from . import state
from . import topology as topo

LOSS_PRIORITY = 5  # before the program that computes the hash


# --- taps: the NIC of an emulated machine as one more host port ---

def tap_add(paths, leaf, name):
    with state.Lock():
        topology = state.load_topology(paths)
        check_tap(topology, leaf, name)
        bpf = build.bpf_object()
        number = topo.leaf_number(leaf)
        tap = {"leaf": leaf, "netns": paths.netns_name(leaf), "tap": name, "leaf_interface": name,
               "mtu": topology["mtu"], "rate_bps": topology["host_rate_bps"],
               **topo.port_addresses(number, free_port(topology, leaf))}
        topology["taps"].append(tap)
        try:
            children.in_node(paths, leaf, lambda: make_tap(topology, tap, bpf))
        except BaseException:
            children.in_node(paths, leaf, lambda: remove_tap(name))
            raise
        state.save_topology(paths, topology)
    return tap


def check_tap(topology, leaf, name):
    if leaf not in topo.leaves(topology):
        raise state.usage(f"'{leaf}' is no leaf; there are {', '.join(topo.leaves(topology))}")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,14}", name):
        raise state.usage(f"'{name}' cannot be an interface name (at most 15 letters and digits)")
    taken = topo.devices(topology, leaf) + ["lo"] + [
        t["tap"] for t in topology["taps"] if t["leaf"] == leaf]
    if name in taken:
        raise state.usage(f"{leaf} has an interface '{name}' already; choose another name")


def free_port(topology, leaf):
    used = {int(p["address"].split(".")[2])
            for p in topo.nics(topology) + topology["taps"] if p["leaf"] == leaf}
    for port in range(1, topo.MAX_PORTS + 1):
        if port not in used:
            return port
    raise state.LabError(f"{leaf} has no free port; it has {topo.MAX_PORTS}")


def make_tap(topology, tap, bpf):
    name = tap["tap"]
    children.tool_batch("ip", [
        f"tuntap add dev {name} mode tap vnet_hdr",
        f"link set dev {name} address {tap['gateway_mac']} mtu {tap['mtu']}",
        *topo.port_lines(tap)])
    lines = topo.hash_line_pair(name, bpf)
    if tap["rate_bps"]:
        lines.append(topo.tbf_line(topology, name, tap["rate_bps"]))
    children.tool_batch("tc", lines)


def remove_tap(name):
    try:
        children.tool_batch("ip", [f"link del dev {name}"])
    except state.LabError as error:
        if "Cannot find device" not in str(error):
            raise


def tap_remove(paths, leaf, name):
    with state.Lock():
        topology = state.load_topology(paths)
        kept = [t for t in topology["taps"] if (t["leaf"], t["tap"]) != (leaf, name)]
        if len(kept) == len(topology["taps"]):
            raise state.usage(f"no tap '{name}' at '{leaf}'; `lab status` lists them")
        children.in_node(paths, leaf, lambda: remove_tap(name))
        topology["taps"] = kept
        state.save_topology(paths, topology)


# --- links ---

def find_link(topology, one, other):
    """(kind, record) of the link between two nodes named in either order."""
    for link in topology["links"]:
        if {link["a"], link["b"]} == {one, other}:
            return "fabric", link
    for host in topo.nics(topology):
        if {host["name"], host["leaf"]} == {one, other}:
            return "host", host
    known = topo.nodes(topology)
    for name in (one, other):
        if name not in known:
            raise state.usage(f"no node '{name}' in lab '{topology['lab']}'; "
                              "`lab status` lists them")
    raise state.usage(f"there is no link between {one} and {other}")


def link_ends(kind, record):
    """((node, device) that sees the carrier go, (node, device) that is switched)."""
    if kind == "host":
        return ((record["name"], record["interface"]),
                (record["leaf"], record["leaf_interface"]))
    return (record["a"], record["a_interface"]), (record["b"], record["b_interface"])


def link_down(paths, one, other, converge):
    """
    Cuts the cable: the leaf (for a host's link the host) sees its carrier go.
    The other leaves still send over that spine, unless @converge.
    """
    with state.Lock():
        topology = state.load_topology(paths)
        kind, record = find_link(topology, one, other)
        near, far = link_ends(kind, record)
        children.in_node(paths, far[0], lambda: children.tool_batch(
            "ip", [f"link set dev {far[1]} down"]))
        wait_carrier(paths, near, ("lowerlayerdown", "down"))
        record["up"] = False
        if kind == "fabric" and converge:
            record["converged"] = False
            write_routes(paths, topology)
        state.save_topology(paths, topology)


def link_up(paths, one, other):
    with state.Lock():
        topology = state.load_topology(paths)
        kind, record = find_link(topology, one, other)
        near, far = link_ends(kind, record)
        lines = topo.port_lines(record) if kind == "host" else topo.spine_link_lines(record)
        children.in_node(paths, far[0], lambda: children.tool_batch(
            "ip", lines))
        for end in (near, far):
            wait_carrier(paths, end, ("up",))
        record["up"] = True
        lose(paths, kind, record, {})
        if kind == "fabric":
            record["converged"] = True
            write_routes(paths, topology)
        state.save_topology(paths, topology)


def write_routes(paths, topology):
    """Writes every switch's routes to the leaves, as a routing protocol does."""
    def rewrite(node):
        enter.netns_only(paths, node)
        children.tool_batch("ip", routes[node])
    routes = {leaf: topo.leaf_route_lines(topology, leaf) for leaf in topo.leaves(topology)}
    if topo.cores(topology):
        routes.update((spine, topo.spine_route_lines(topology, spine)) for spine in topo.spines(topology))
        routes.update((core, topo.core_route_lines(topology, core)) for core in topo.cores(topology))
    children.fork_each(list(routes), rewrite)


def wait_carrier(paths, end, wanted):
    def wait(_):
        enter.node_view(paths, end[0])
        build.wait_operational(end[1], wanted)
    children.fork_each([end[0]], wait)


def link_rate(paths, one, other, rate_bps):
    """Another rate on both directions of a link, None: no limit."""
    with state.Lock():
        topology = state.load_topology(paths)
        kind, record = find_link(topology, one, other)
        record["rate_bps"] = rate_bps
        for node, device in link_ends(kind, record):
            line = (topo.tbf_line(topology, device, rate_bps) if rate_bps
                    else f"qdisc replace dev {device} root noqueue")
            children.in_node(paths, node, lambda line=line: children.tool_batch("tc", [line]))
        state.save_topology(paths, topology)


# --- packets that are lost without a trace ---

def link_loss(paths, one, other, percent, both):
    """Part of what goes from @one to @other is lost, or also of what comes back; no carrier and no counter shows it."""
    with state.Lock():
        topology = state.load_topology(paths)
        kind, record = find_link(topology, one, other)
        loss = {**record["loss"], other: percent, **({one: percent} if both else {})}
        lose(paths, kind, record, {to: share for to, share in loss.items() if share})
        state.save_topology(paths, topology)


def lose(paths, kind, record, loss):
    """@loss: percent by the node that the packets go to. At a host the filters are of the leaf's end: the host's own
    programs see what they would see."""
    near, far = link_ends(kind, record)
    places = [(far, "ingress", far[0]), (far, "egress", near[0])]
    lines = []
    for (_, device), hook, to in places:
        if to in record["loss"]:
            lines.append(f"filter del dev {device} {hook} prio {LOSS_PRIORITY}")
        if to in loss:
            lines += [f"qdisc replace dev {device} clsact",
                      f"filter add dev {device} {hook} prio {LOSS_PRIORITY} bpf da obj {loss_object()} sec tc "
                      f"classid 1:{max(1, min(0xffff, round(loss[to] * 655.36))):x}"]
    if lines:
        children.in_node(paths, far[0], lambda: children.tool_batch("tc", lines))
    record["loss"] = loss


def loss_object():
    return build.bpf_object("loss.bpf.o")
