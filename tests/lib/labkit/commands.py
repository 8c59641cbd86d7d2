# SPDX-License-Identifier: BSD-2-Clause
"""The verbs of `lab`, all but `exec`."""
import argparse
import json
import os
import secrets
import signal
import sys

from . import build
from . import daemons
from . import plug
from . import show
from . import state
from . import topology as topo
from . import traffic

import undo


def count(low, high):
    def check(text):
        if not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return int(text)
    return check


def rate(text):
    value = topo.parse_rate(text)
    if value is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no rate; write 100mbit, 2.5gbit or bits per second (at least 8kbit)")
    return value


def rate_or_none(text):
    return None if text == "none" else rate(text)


def share(text):
    """Percent: '0.5', '0.5%' or 'none'."""
    try:
        value = 0.0 if text == "none" else float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; write 0.5%, 100% or none")
    return value


def size(text):
    value = topo.parse_bytes(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 250000, 250k or 1m (bytes)")
    return value


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def ports(text):
    """'49152', '49152,49200' or '49152-49160'."""
    found = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        high = high or low
        if not (low.isdigit() and high.isdigit() and 1 <= int(low) <= int(high) <= 65535):
            raise argparse.ArgumentTypeError(f"{text!r} is no port, list or range of ports")
        found += range(int(low), int(high) + 1)
    return found


def add_up(verbs):
    up = verbs.add_parser("up", help="build the network")
    up.add_argument("--hosts", type=count(1, topo.MAX_HOSTS), default=4)
    up.add_argument("--leaves", type=count(1, topo.MAX_LEAVES), default=2, help="of each rail")
    up.add_argument("--spines", type=count(1, topo.MAX_SPINES), default=2, help="of each pod")
    up.add_argument("--pods", type=count(1, topo.MAX_PODS), default=1,
                    help="each with its part of the leaves and with spines of its own, connected by cores")
    up.add_argument("--cores", type=count(1, topo.MAX_CORES), default=2, help="with --pods")
    up.add_argument("--rails", type=count(1, topo.MAX_RAILS), default=1,
                    help="NICs of each host, that of rail K at the leaves of rail K")
    up.add_argument("--frontend", action="store_true",
                    help="each host has an eth0 at a leaf of a front-end network")
    up.add_argument("--rate", type=rate, help="of every leaf-spine link (default: no limit)")
    up.add_argument("--host-rate", type=rate, help="of every host's link (default: no limit)")
    up.add_argument("--queue", type=size, default=250000, metavar="BYTES",
                    help="queue in front of a limited link")
    up.add_argument("--mtu", type=count(1280, 9000), default=1500)
    up.add_argument("--queues", type=count(1, 64), default=os.cpu_count() or 1,
                    help="of every device (default: one for each CPU)")
    up.add_argument("--hash-seed", type=count(1, 2**32 - 1), default=12345,
                    help="of the switches' ECMP hash, if the kernel has the setting")
    up.add_argument("--icmp-interval", type=count(0, 60000), default=1000, metavar="MS",
                    help="between ICMP errors of a switch to one address (default: the kernel's)")
    up.add_argument("--skew", nargs="?", const="random", metavar="SEED",
                    help="a clock offset and drift for each host, drawn from SEED")
    up.set_defaults(act=act_up)


def add_rest(verbs):
    for name, act, text in (("start", act_start, "one escapementd on each host; waits for its reply"),
                            ("stop", act_stop, "end them"),
                            ("restart", act_restart, "end and start them"),
                            ("kill", act_kill, "end them with SIGKILL")):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("hosts", nargs="*", metavar="HOST")
        verb.set_defaults(act=act)
    verb = verbs.add_parser("ip", help="the address of a node")
    verb.add_argument("node")
    verb.add_argument("-6", dest="six", action="store_true")
    verb.set_defaults(act=act_ip)
    verb = verbs.add_parser("link", help="cut, restore or limit a link")
    verb.add_argument("one")
    verb.add_argument("other")
    verb.add_argument("do", choices=("down", "up", "rate", "loss", "oneway"))
    verb.add_argument("value", nargs="?", help="with `rate`: RATE or none; with `loss`: percent or none, of both "
                      "directions; `oneway`: of what goes from A to B, all by default; `up` ends losses")
    verb.add_argument("--converge", action="store_true",
                      help="with `down`: the other leaves stop using that spine for this leaf")
    verb.set_defaults(act=act_link)
    verb = verbs.add_parser("tap", help="connect an emulated machine; prints its addresses")
    verb.add_argument("leaf")
    verb.add_argument("name")
    verb.set_defaults(act=act_tap)
    verb = verbs.add_parser("untap", help="disconnect it")
    verb.add_argument("leaf")
    verb.add_argument("name")
    verb.set_defaults(act=act_untap)
    verb = verbs.add_parser("path", help="the spine of a 5-tuple")
    verb.add_argument("source")
    verb.add_argument("target")
    verb.add_argument("--sport", type=ports, required=True, help="PORT, A,B or A-B")
    verb.add_argument("--dport", type=count(1, 65535), default=4791)
    verb.add_argument("--proto", choices=("udp", "tcp"), default="udp")
    verb.add_argument("-6", dest="six", action="store_true")
    verb.add_argument("-j", dest="json", action="store_true")
    verb.set_defaults(act=act_path)
    verb = verbs.add_parser("status", help="nodes, links and daemons")
    verb.add_argument("-j", dest="json", action="store_true")
    verb.set_defaults(act=act_status)
    verb = verbs.add_parser("down", help="remove the lab")
    verb.set_defaults(act=act_down)


def parser():
    top = argparse.ArgumentParser(
        prog="lab", description="A leaf-spine network in network namespaces (root). LAB=name "
        "keeps several apart (default esc); ESCAPEMENT_BUILD is the build folder.",
        epilog="lab exec NODE -- COMMAND... runs a command inside a node.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    add_up(verbs)
    add_rest(verbs)
    traffic.add_verb(verbs, rate, count, seconds, ports)
    return top


def seed_of(text):
    if text is None:
        return None
    if text == "random":
        return secrets.randbelow(2**32)
    if not text.isdigit():
        raise state.usage(f"--skew {text!r}: a seed is a number")
    return int(text)


def act_up(paths, options):
    if options.hosts > options.leaves * topo.MAX_PORTS:
        raise state.usage(f"{options.hosts} hosts do not fit on {options.leaves} leaves; "
                          "use more --leaves")
    if options.pods > options.leaves:
        raise state.usage(f"{options.leaves} leaves are too few for {options.pods} pods; use more --leaves")
    if options.rails * options.leaves + options.frontend > topo.MAX_LEAVES or \
            options.pods * options.spines > topo.MAX_SPINES:
        raise state.usage(f"there can be {topo.MAX_LEAVES} leaves of all rails and {topo.MAX_SPINES} spines of all pods")
    if options.frontend and options.hosts > topo.MAX_PORTS:
        raise state.usage(f"the front end has {topo.MAX_PORTS} ports")
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    undo.register("env", f"LAB={paths.name}", os.path.abspath(sys.argv[0]), "down")
    topology = build.up(paths, {
        "hosts_asked": options.hosts, "leaves": options.leaves, "spines": options.spines,
        "pods": options.pods, "cores": options.cores, "rails": options.rails, "frontend": options.frontend,
        "mtu": options.mtu, "rate_bps": options.rate, "host_rate_bps": options.host_rate,
        "queue_bytes": options.queue, "hash_seed": options.hash_seed, "queues": options.queues,
        "icmp_interval_ms": options.icmp_interval},
        seed_of(options.skew))
    return f"clock skew drawn from seed {topology['skew_seed']}" if "skew_seed" in topology else ""


def interrupt(*_):
    raise KeyboardInterrupt


def act_start(paths, options):
    daemons.start(paths, options.hosts)


def act_stop(paths, options):
    daemons.stop(paths, options.hosts)


def act_restart(paths, options):
    daemons.stop(paths, options.hosts)
    daemons.start(paths, options.hosts)


def act_kill(paths, options):
    daemons.kill(paths, options.hosts)


def act_ip(paths, options):
    return show.address(paths, options.node, options.six)


def parsed(parse, text):
    """The value of `link ... rate` or `loss`, which argparse cannot check: it depends on the word before."""
    try:
        return parse(text or "")
    except argparse.ArgumentTypeError as error:
        raise state.usage(str(error)) from None


def act_link(paths, options):
    if options.do == "rate":
        plug.link_rate(paths, options.one, options.other, parsed(rate_or_none, options.value))
    elif options.do in ("loss", "oneway"):
        default = None if options.do == "loss" else "100%"
        plug.link_loss(paths, options.one, options.other, parsed(share, options.value or default),
                       options.do == "loss")
    elif options.do == "down":
        plug.link_down(paths, options.one, options.other, options.converge)
    else:
        plug.link_up(paths, options.one, options.other)


def act_tap(paths, options):
    tap = plug.tap_add(paths, options.leaf, options.name)
    return json.dumps({key: tap[key] for key in show.TAP_KEYS})


def act_untap(paths, options):
    plug.tap_remove(paths, options.leaf, options.name)


def act_path(paths, options):
    found = show.path(paths, options.source, options.target, options.sport, options)
    if options.json:
        return json.dumps([{"sport": sport, "via": via} for sport, via in found])
    if len(found) == 1:
        return found[0][1]
    return "\n".join(f"{sport} {via}" for sport, via in found)


def act_status(paths, options):
    whole = show.status(paths)
    return json.dumps(whole) if options.json else show.status_text(whole)


def act_down(paths, _):
    return "" if build.down(paths) else f"lab '{paths.name}' is not up"


def run(paths, words):
    """A verb with its arguments: the text that it prints."""
    options = parser().parse_args(words)
    state.need_root()
    text = options.act(paths, options)
    return text + "\n" if text else ""


def main(words):
    paths = state.lab_paths()
    print(run(paths, words), end="")
    return 0
