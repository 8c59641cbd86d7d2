# SPDX-License-Identifier: BSD-2-Clause
"""Control laws between two machines whose clocks really differ: automatic contention steering of soft-RoCE queue pairs on
two spines, and pacing into a slow port."""
import concurrent.futures
import contextlib
import ipaddress
import json
import os
import subprocess
import time

import events
import nicwire
from emulation import channel, perftest, state

from . import bench, cleanup, disturb, failover, owd
from .bench import CLIENT, SERVER

RUNS = 1  # streams
ONSETS = 4  # of contention in each: each another one, of the spine that the most queue pairs are on then
# A queue of soft-RoCE is no failure of the path. `capacity`: virtio has no speed, and what is slow here is faster later.
STEERED = ("steer: { mode: auto, capacity: 200Mbit }\nmesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
           "paths: { probe_interval: 20ms, standby_interval: 20ms, dead_after: 1s }\n" + disturb.ENDED)
QPS = 4
# One message of a queue pair at a time: it is drained before the next, so that no packet can overtake another.
STREAM = ("-s", "16384", "-t", "1", "-u", "20")
PATHS_SECONDS, CALM_SECONDS, CONTENDED_SECONDS, SETTLE_SECONDS = 40, 2, 5, 2
SENDING_SECONDS = 15
STREAM_SECONDS = PATHS_SECONDS + ONSETS * 25  # an onset takes so long with what is asked of busy machines
FREE, SLOW = "1Gbit", "4Mbit"  # of the spine with the most queue pairs, from the onset on: less than they send
LEFT_SECONDS = 1  # the median; a single one may meet a stall of the machine
# Pacing: a port with less room than the windows of the queue pairs.
PORT_RATE, PORT_BYTES, MTU = "20mbit", 60000, 512
PACED = ("mesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
         "pace: { threshold: 8ms, line: 20Mbit, hold_max: 500ms }\n")
INCAST = ("-s", "65536", "-n", "15", "-m", str(MTU), "-u", "18")
DROP_PART = 0.05


def spines_of(rows):
    return [failover.spine_of(CLIENT, row.get("steered_sport", row["sport"])) for row in rows]


def sending():
    return [row for key, row in bench.queue_pairs(CLIENT).items()
            if key[0] == "tx" and row["transport"] == "RC" and row["throughput_bps"]]


def wait_sending():
    """The rows of the client's queue pairs; a stalled machine sends nothing for a moment."""
    deadline = time.monotonic() + SENDING_SECONDS
    while len(rows := sending()) < QPS and time.monotonic() < deadline:
        time.sleep(0.5)
    return rows


def wait_streams(running):
    """The rows of the client's queue pairs, once all send and have a backup."""
    deadline = time.monotonic() + PATHS_SECONDS
    while time.monotonic() < deadline and not running.done():
        rows = sending()
        if len(rows) == QPS and all(failover.has_backup(CLIENT, row) for row in rows):
            return rows
        time.sleep(0.5)
    return []


@contextlib.contextmanager
def slow_spine(spine):
    leaf = failover.leaf_of(SERVER)
    state.lab("link", leaf, spine, "rate", SLOW)
    try:
        yield
    finally:
        state.lab("link", leaf, spine, "rate", FREE)  # the queue stays, without a limiter it would be lost


def moves_since(known):
    return events.parse(channel.read(CLIENT, ["escapement", "-j", "events"]), "move_scheduled", "path_switched")[known:]


def leaving(packets, spine, begun_at):
    """{queue pair: seconds from @begun_at to its first packet over another spine}, of those on @spine, as the wire has it;
    None: it has not left."""
    source, found, over = ipaddress.ip_address(bench.address_of(CLIENT, 4)).packed, {}, {}
    for packet in packets:
        if packet.source != source or not packet.is_request or not begun_at - CALM_SECONDS < packet.time \
                < begun_at + CONTENDED_SECONDS:
            continue
        if packet.sport not in over:
            over[packet.sport] = failover.spine_of(CLIENT, packet.sport)
        if over[packet.sport] == spine:
            found[packet.qpn] = None
        elif packet.qpn in found and found[packet.qpn] is None and packet.time > begun_at:
            found[packet.qpn] = packet.time - begun_at
    return found


def run_onset():
    """The spine with the most queue pairs becomes slow: what they do."""
    known = len(moves_since(0))
    time.sleep(CALM_SECONDS)
    seen = {"calm_moves": len(moves_since(known))}
    placed = spines_of(wait_sending())
    seen["spine"] = max(set(placed), key=placed.count)
    known = len(moves_since(0))
    with slow_spine(seen["spine"]):
        seen["begun_at"] = time.time()
        time.sleep(CONTENDED_SECONDS)
        seen["plan"] = bench.escapement(CLIENT, "steer", "plan")
        found = moves_since(known)
    time.sleep(SETTLE_SECONDS)
    return dict(seen, moves=[event["seen"] for event in found if event["kind"] == "move_scheduled"])


def run_contended(folder):
    """ib_write_bw on two spines, of which the busier one becomes slow, several times: the onsets."""
    seen, guest = {"onsets": []}, state.guest(CLIENT)
    tap = nicwire.Tap(guest["netns"], guest["tap"], os.path.join(folder, "contended.pcap"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(perftest.run, CLIENT, SERVER, "ib_write_bw", qps=QPS, nice=failover.NICE,
                              seconds=2 * STREAM_SECONDS, extra=STREAM + ("-D", str(STREAM_SECONDS)))
        if wait_streams(running):
            while len(seen["onsets"]) < ONSETS and len(wait_sending()) == QPS:
                seen["onsets"].append(run_onset())
        seen["good"] = (result := running.result())["good"]
        seen["output"] = result["client_output"] + result["server_output"]
    packets = tap.stop()
    for onset in seen["onsets"]:
        onset["left_s"] = leaving(packets, onset["spine"], onset["begun_at"])
    return seen


def check_onset(tap, what, onset):
    """Seconds until the last one that had to has left the slow spine."""
    for move in onset["moves"]:
        tap.note(f"{what}: moved at {move['from']['delay_ns'] / 1e6:.1f} ms, floor {move['from']['floor_ns'] / 1e6:.1f}, "
                 f"bound {move['bound_ns'] / 1e6:.3f}")
    tap.equal(onset["calm_moves"], 0, f"{what}: nothing moves before")
    tap.check(onset["moves"] and all(move["from"]["delay_ns"] - move["from"]["floor_ns"] > move["bound_ns"]
                                     for move in onset["moves"]),
              f"{what}: each move is for a delay whose excess is above the clock's bound", onset["moves"])
    left, stay = sorted(at for at in onset["left_s"].values() if at), list(onset["left_s"].values()).count(None)
    contended = [path for pair in onset["plan"]["pairs"] for path in pair["paths"]
                 if path["contended"] and failover.spine_of(CLIENT, path["sport"]) == onset["spine"]]
    tap.note(f"{what}: {len(left)} left {onset['spine']} after " + ", ".join(f"{at:.2f}" for at in left) +
             f" s, {stay} stayed; {'contended' if contended else 'not contended'} {CONTENDED_SECONDS} s later")
    tap.check(left and not contended, f"{what}: the slow spine is left until it is not contended", onset)
    return left[-1] if left and not contended else float("inf")


def check_contended(tap, folder, number):
    before = bench.each(bench.rxe_counters)
    seen = run_contended(folder)
    what = f"two_clocks, contention {number}"
    errors = [now["retry_exceeded_err"] - then["retry_exceeded_err"]
              for now, then in zip(bench.each(bench.rxe_counters), before)]
    tap.equal(len(seen["onsets"]), ONSETS, f"{what}: {QPS} queue pairs send, each with a backup, for {ONSETS} onsets")
    tap.check(seen["good"] and not any(errors), f"{what}: no queue pair ended", (seen["output"], errors))
    return [check_onset(tap, f"{what}.{at}", onset) for at, onset in enumerate(seen["onsets"])]


@contextlib.contextmanager
def slow_port():
    """The leaf's port to the server."""
    guest = state.guest(SERVER)

    def tc(*words):
        return subprocess.run(state.in_netns(guest["netns"], ["tc", *words]), check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    tc("qdisc", "replace", "dev", guest["tap"], "root", "handle", "77:", "tbf", "rate", PORT_RATE, "burst", "9200",
       "limit", str(PORT_BYTES))
    try:
        yield lambda: json.loads(tc("-s", "-j", "qdisc", "show", "dev", guest["tap"]))[0]["drops"]
    finally:
        tc("qdisc", "del", "dev", guest["tap"], "root")


def run_incast(drops):
    """ib_write_bw into the port: (its result, packets that the port dropped)."""
    before = drops()
    result = perftest.run(CLIENT, SERVER, "ib_write_bw", qps=QPS, nice=failover.NICE, extra=INCAST, seconds=150)
    return result, drops() - before


def check_paced(tap):
    with disturb.pacing(PACED), slow_port() as drops:
        clock = bench.escapement(CLIENT, "pace")["clock"]
        tap.check(clock["usable"], "two_clocks: pacing has fabric time that is good enough", clock)
        before = disturb.held(CLIENT)
        paced, lost = run_incast(drops)
        held = disturb.held(CLIENT) - before
        bound = bench.escapement(CLIENT, "clock")
        bench.each(lambda name: bench.escapement(name, "pace", "off"))
        plain, plain_lost = run_incast(drops)
    tap.note(f"two_clocks, incast: paced {lost} dropped, {held} held, plain {plain_lost} dropped; "
             f"bound {bound.get('bound_ns')} ns")
    tap.check(paced["good"] and plain["good"], "two_clocks, incast: no queue pair ended",
              paced["client_output"] + plain["client_output"])
    tap.check(held > 0 and lost <= DROP_PART * plain_lost,
              f"two_clocks, incast: paced, {lost} packets are dropped, without {plain_lost}", clock)


def test_two_clocks(tap, folder):
    """Two machines with clocks of their own: a contended path is left, and a paced incast drops next to nothing."""
    cleanup.make_fresh(top=STEERED, members=owd.members(), key=owd.KEY)
    owd.wait_synced()
    left = sorted(sum((check_contended(tap, folder, number) for number in range(RUNS)), []))
    tap.note("two_clocks, contention: the slow spine was left for good after " + ", ".join(f"{at:.2f}" for at in left) + " s")
    tap.check(left and left[len(left) // 2] <= LEFT_SECONDS,
              f"two_clocks, contention: the median of {len(left)} is within {LEFT_SECONDS} s", left)
    check_paced(tap)
