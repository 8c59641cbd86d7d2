# SPDX-License-Identifier: BSD-2-Clause
"""Building a lab and removing it."""
import errno
import os
import signal
import subprocess
import time

from . import children
from . import enter
from . import processes
from . import state
from . import syscalls as sc
from . import topology as topo

SETTLE_S = 3.0

HOST_SYSCTLS = {
    "ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0,
    "ipv6/conf/all/accept_dad": 0, "ipv6/conf/default/accept_dad": 0,
    "ipv6/conf/all/accept_ra": 0, "ipv6/conf/default/accept_ra": 0,
    "ipv6/conf/default/router_solicitations": 0,
    "ipv6/conf/all/keep_addr_on_down": 1, "ipv6/conf/default/keep_addr_on_down": 1,
    "ipv4/ping_group_range": "0 2147483647",
}
# A leaf stops using an uplink that lost its carrier, as a switch does.
SWITCH_SYSCTLS = {
    **HOST_SYSCTLS,
    "ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1, "ipv6/conf/default/forwarding": 1,
    "ipv4/fib_multipath_hash_policy": 1, "ipv6/fib_multipath_hash_policy": 1,
    "ipv4/conf/all/ignore_routes_with_linkdown": 1,
    "ipv4/conf/default/ignore_routes_with_linkdown": 1,
    "ipv6/conf/all/ignore_routes_with_linkdown": 1,
    "ipv6/conf/default/ignore_routes_with_linkdown": 1,
    "ipv4/conf/all/send_redirects": 0, "ipv4/conf/default/send_redirects": 0,
}
OPTIONAL_SYSCTLS = ("ipv4/fib_multipath_hash_seed",)  # since Linux 6.11


def bpf_object(name="leaf.bpf.o"):
    path = state.build_dir() + "/tests/tools/" + name
    if not os.path.exists(path):
        raise state.LabError(f"{path} is not built; run `make tests` "
                             "(ESCAPEMENT_BUILD names another build folder)")
    return path


# --- up ---

def up(paths, options, skew_seed):
    """Builds all of it, or leaves nothing."""
    with state.Lock():
        leftovers(paths)
        bpf = bpf_object()
        topology = topo.make(paths.name, options)
        if skew_seed is not None:
            topo.draw_skew(topology["hosts"], skew_seed)
            topology["skew_seed"] = skew_seed
        try:
            own(paths, topology)
            construct(paths, topology, bpf)
            ignore_signals()  # from here on it is up
            state.save_topology(paths, topology)
        except BaseException:
            ignore_signals()
            tear_down(paths)
            raise
    return topology


def ignore_signals():
    for number in children.ENDING:
        signal.signal(number, signal.SIG_IGN)


def leftovers(paths):
    """A lab that is up is refused, the rest of an incomplete one is removed."""
    if os.path.exists(paths.topology):
        raise state.LabError(f"lab '{paths.name}' is up already; "
                             "`lab down` first, or choose another name with LAB=")
    if os.path.exists(paths.root):
        tear_down(paths)


def own(paths, topology):
    """Records every namespace before it is made: tear_down() removes these and no others."""
    names = topo.nodes(topology)
    for name in names:
        if os.path.exists(paths.netns(name)):
            raise state.LabError(f"the namespace {paths.netns_name(name)} is there already and "
                                 "not this lab's; choose another name with LAB=")
    os.mkdir(paths.root, 0o755)
    state.write_json(paths.owned, names)


def construct(paths, topology, bpf):
    state.make_daemon_folders()
    make_folders(paths, topology)
    prepare_netns_dir()
    names = topo.nodes(topology)
    children.fork_each(names, lambda name: make_namespace(paths, name, topology))
    children.tool_batch("ip", list(topo.veth_lines(topology)))
    children.fork_each(names, lambda name: furnish(paths, topology, name, bpf))


def make_folders(paths, topology):
    os.mkdir(paths.loads)
    for node in topo.nodes(topology):
        for folder in ("sys", "bpf"):
            os.makedirs(paths.node(node, folder))
        sc.mount("bpf", paths.node(node, "bpf"), "bpf",
                 sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    for host in topology["hosts"]:
        for folder in (*state.DAEMON_FOLDERS, "textfile"):
            os.makedirs(paths.node(host["name"], folder))
        write_config(paths, topology, host)
    state.write_json(paths.members, [
        {"targets": [nic["address"]], "labels": member_labels(topology, nic)}
        for nic in topo.nics(topology)])


def member_labels(topology, nic):
    """A rack is a leaf; with several NICs a host has several leaves, and a rack is the hosts that share theirs."""
    labels = {"host": nic["name"], "rack": nic["leaf"], "addresses": nic["address6"]}
    if topology["nics"]:
        labels.update(rack=f"rack{nic['rack']}", plane=nic["plane"])
    if topology["nics"] and nic["rail"]:
        labels["rail"] = str(nic["rail"])
    if topology["pods"] > 1:
        labels["pod"] = f"pod{nic['pod']}"
    return labels


def key_file(paths, name):
    """The fleet's key, of 16 fixed bytes: the first one is even."""
    path = paths.node(name, "fleet.key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(b"\x0a lab of a test\n")
    return path


def write_config(paths, topology, host):
    name = host["name"]
    text = (f"host: {name}\n"
            "interfaces:\n" + "".join(
                f"  - name: {nic['interface']}\n"
                f"    plane: {nic['plane']}\n"
                for nic in topo.nics(topology) if nic["name"] == name) +
            f"members: {paths.members}\n"
            f"key_file: {key_file(paths, name)}\n"
            "textfile:\n"
            f"  directory: {paths.node(name, 'textfile')}\n"
            "  interval: 1s\n")
    if "skew_seed" in topology:
        text += ("lab:\n"
                 f"  clock_offset: {host['clock_offset_ns']}ns\n"
                 f"  clock_drift_ppb: {host['clock_drift_ppb']}\n")
    with open(paths.node(name, "escapement.yaml"), "w", encoding="ascii") as out:
        out.write(text)


def prepare_netns_dir():
    """As `ip netns add` does it: shared, so that a removed namespace goes in every mount view."""
    os.makedirs(state.NETNS_DIR, exist_ok=True)
    try:
        sc.mount("", state.NETNS_DIR, "none", sc.MS_SHARED | sc.MS_REC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        sc.mount(state.NETNS_DIR, state.NETNS_DIR, "none", sc.MS_BIND | sc.MS_REC)
        sc.mount("", state.NETNS_DIR, "none", sc.MS_SHARED | sc.MS_REC)


def make_namespace(paths, node, topology):
    os.close(os.open(paths.netns(node), os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0))
    sc.unshare(sc.CLONE_NEWNET)
    sc.mount("/proc/self/ns/net", paths.netns(node), "none", sc.MS_BIND)
    settings = HOST_SYSCTLS
    if not node.startswith("h"):
        settings = {**SWITCH_SYSCTLS, "ipv4/fib_multipath_hash_seed": topology["hash_seed"],
                    "ipv4/icmp_ratelimit": topology["icmp_interval_ms"],
                    "ipv6/icmp/ratelimit": topology["icmp_interval_ms"]}
    for key, value in settings.items():
        write_sysctl(key, value)


def write_sysctl(key, value):
    try:
        with open("/proc/sys/net/" + key, "w", encoding="ascii") as out:
            out.write(str(value))
    except FileNotFoundError:
        if key not in OPTIONAL_SYSCTLS:
            raise


def furnish(paths, topology, node, bpf):
    enter.node_view(paths, node)
    children.tool_batch("ip", topo.ip_lines(topology, node) + [
        f"link set dev {h['leaf_interface']} xdpdrv obj {bpf} sec xdp.frags"
        for h in topo.nics(topology) if h["leaf"] == node])
    for version in ("-4", "-6"):
        children.tool_batch("ip", topo.rule_lines(topology, node, version == "-6"), version)
    children.tool_batch("tc", topo.tc_lines(topology, node, bpf))
    for device in topo.devices(topology, node):
        spread_queues(device, topology["queues"])
        if topology["queues"] == 1:
            keep_order(device)
        wait_operational(device)


def spread_queues(device, queues):
    """Queue i for CPU i: a probe does not wait behind another CPU's bulk traffic."""
    for i in range(queues):
        groups = ["00000000"] * (i // 32) + [f"{1 << (i % 32):08x}"]
        path = f"/sys/class/net/{device}/queues/tx-{i}/xps_cpus"
        try:
            with open(path, "w", encoding="ascii") as out:
                out.write(",".join(reversed(groups)))
        except OSError:
            return  # one queue, or a kernel without XPS


def keep_order(device):
    """A veth receives by NAPI, from one ring, if it has GRO and its peer no TSO (veth_skb_is_eligible_for_gro) or XDP is
    attached. Otherwise packets that two CPUs send to it (one that enqueues at a token bucket, and the one of its timer)
    are in two backlogs, and are reordered."""
    subprocess.run(["ethtool", "-K", device, "gro", "on", "tso", "off"], check=True, stdin=subprocess.DEVNULL)


def wait_operational(device, wanted=("up",)):
    """The carrier state reaches the routes late: waits until it has."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        with open(f"/sys/class/net/{device}/operstate", encoding="ascii") as text:
            now = text.read().strip()
        if now in wanted:
            return
        if time.monotonic() > deadline:
            raise state.LabError(f"{device} is {now}, not {' or '.join(wanted)}, "
                                 f"after {SETTLE_S:.0f} s")
        time.sleep(0.002)


# --- down ---

def down(paths):
    """Whether there was a lab."""
    with state.Lock():
        if not os.path.exists(paths.root):
            return False
        tear_down(paths)
        return True


def tear_down(paths):
    """
    Removes what owned.json lists, whatever state it is in. Called again after
    a failure it continues; the list is removed last.
    """
    owned = state.read_json(paths.owned, [])
    processes.end_all(paths, owned)
    for node in owned:
        if os.path.exists(paths.netns(node)):
            sc.umount(paths.netns(node))
            os.unlink(paths.netns(node))
        sc.umount(paths.node(node, "bpf"))
    if os.path.exists(paths.topology):
        os.unlink(paths.topology)
    state.remove_tree(paths)
