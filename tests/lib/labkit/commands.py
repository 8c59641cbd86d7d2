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
    up.add_argument("--leaves", type=count(1, topo.MAX_LEAVES), default=2)
    up.add_argument("--spines", type=count(1, topo.MAX_SPINES), default=2)
    up.add_argument("--rate", type=rate, help="of every leaf-spine link (default: no limit)")
    up.add_argument("--host-rate", type=rate, help="of every host's link (default: no limit)")
    up.add_argument("--queue", type=size, default=250000, metavar="BYTES",
                    help="queue in front of a limited link")
    up.add_argument("--mtu", type=count(1280, 9000), default=1500)
    up.add_argument("--queues", type=count(1, 64), default=os.cpu_count() or 1,
                    help="of every device (default: one for each CPU)")
    up.add_argument("--hash-seed", type=count(1, 2**32 - 1), default=12345,
                    help="of the switches' ECMP hash, where the kernel lets it be set")
    up.add_argument("--skew", nargs="?", const="random", metavar="SEED",
                    help="each host a clock offset and drift of its own, drawn from SEED")
    up.set_defaults(act=act_up)


def add_rest(verbs):
    for name, act, text in (("start", act_start, "one escapementd on each host, until it answers"),
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
    verb = verbs.add_parser("link", help="cut, mend or slow a link")
    verb.add_argument("one")
    verb.add_argument("other")
    verb.add_argument("do", choices=("down", "up", "rate"))
    verb.add_argument("rate", nargs="?", type=rate_or_none, help="with `rate`: RATE or none")
    verb.add_argument("--converge", action="store_true",
                      help="with `down`: the other leaves stop using that spine for this leaf")
    verb.set_defaults(act=act_link)
    verb = verbs.add_parser("tap", help="plug an emulated machine in; prints its addresses")
    verb.add_argument("leaf")
    verb.add_argument("name")
    verb.set_defaults(act=act_tap)
    verb = verbs.add_parser("untap", help="unplug it")
    verb.add_argument("leaf")
    verb.add_argument("name")
    verb.set_defaults(act=act_untap)
    verb = verbs.add_parser("path", help="which spine a 5-tuple takes")
    verb.add_argument("source")
    verb.add_argument("target")
    verb.add_argument("--sport", type=ports, required=True, help="PORT, A,B or A-B")
    verb.add_argument("--dport", type=count(1, 65535), default=4791)
    verb.add_argument("--proto", choices=("udp", "tcp"), default="udp")
    verb.add_argument("-6", dest="six", action="store_true")
    verb.add_argument("-j", dest="json", action="store_true")
    verb.set_defaults(act=act_path)
    verb = verbs.add_parser("status", help="what is there, what runs")
    verb.add_argument("-j", dest="json", action="store_true")
    verb.set_defaults(act=act_status)
    verb = verbs.add_parser("down", help="leave nothing behind")
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


def act_up(paths, asked):
    if asked.hosts > asked.leaves * topo.MAX_PORTS:
        raise state.usage(f"{asked.hosts} hosts do not fit on {asked.leaves} leaves; "
                          "ask for more --leaves")
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    undo.register("env", f"LAB={paths.name}", os.path.abspath(sys.argv[0]), "down")
    topology = build.up(paths, {
        "hosts_asked": asked.hosts, "leaves": asked.leaves, "spines": asked.spines,
        "mtu": asked.mtu, "rate_bps": asked.rate, "host_rate_bps": asked.host_rate,
        "queue_bytes": asked.queue, "hash_seed": asked.hash_seed, "queues": asked.queues},
        seed_of(asked.skew))
    if "skew_seed" in topology:
        print(f"clock skew drawn from seed {topology['skew_seed']}")


def interrupt(*_):
    raise KeyboardInterrupt


def act_start(paths, asked):
    daemons.start(paths, asked.hosts)


def act_stop(paths, asked):
    daemons.stop(paths, asked.hosts)


def act_restart(paths, asked):
    daemons.stop(paths, asked.hosts)
    daemons.start(paths, asked.hosts)


def act_kill(paths, asked):
    daemons.kill(paths, asked.hosts)


def act_ip(paths, asked):
    print(show.address(paths, asked.node, asked.six))


def act_link(paths, asked):
    if asked.do == "rate":
        plug.link_rate(paths, asked.one, asked.other, asked.rate)
    elif asked.do == "down":
        plug.link_down(paths, asked.one, asked.other, asked.converge)
    else:
        plug.link_up(paths, asked.one, asked.other)


def act_tap(paths, asked):
    tap = plug.tap_add(paths, asked.leaf, asked.name)
    print(json.dumps({key: tap[key] for key in show.TAP_KEYS}))


def act_untap(paths, asked):
    plug.tap_remove(paths, asked.leaf, asked.name)


def act_path(paths, asked):
    found = show.path(paths, asked.source, asked.target, asked.sport, asked)
    if asked.json:
        print(json.dumps([{"sport": sport, "via": via} for sport, via in found]))
    elif len(found) == 1:
        print(found[0][1])
    else:
        for sport, via in found:
            print(sport, via)


def act_status(paths, asked):
    whole = show.status(paths)
    print(json.dumps(whole) if asked.json else show.status_text(whole))


def act_down(paths, _):
    if not build.down(paths):
        print(f"lab '{paths.name}' is not up")


def main(words):
    asked = parser().parse_args(words)
    paths = state.lab_paths()
    state.need_root()
    asked.act(paths, asked)
    return 0
