# SPDX-License-Identifier: BSD-2-Clause
"""What happens to programs that run over two soft-RoCE machines, and the gaps that it leaves in their traffic."""
import concurrent.futures
import contextlib
import ipaddress
import json
import os
import tempfile
import threading
import time

import nicwire
from emulation import channel, daemon, perftest, state

from . import bench, cleanup, failover, nic, owd, steer
from .bench import CLIENT, SERVER

RESTART_GAP_S = 2
FAILURE_GAP_S = 4
NIC_OUTAGE_S = 3
NIC_CASES = (("carrier", (CLIENT,)), ("silent", (SERVER,)), ("carrier", (SERVER,)), ("silent", (CLIENT,)))
# A queue pair that sends without a pause, of which a gap can be read.
FLOW_PACKETS = 300
# Above what a busy guest's own stalls make of the delay; no packet waits for longer than perftest's shortest timer.
PACED = ("mesh: { pair_interval: 20ms }\nclock: { window: 10s }\n"
         "pace: { threshold: 20ms, line: 100Mbit, hold_max: 40ms }\n")
PACE_WAIT_S = 60
PATHS_WAIT_S = 10  # as the test repair: for the first candidate paths
ENDED = "qps: { idle: 10s }\n"  # those of programs before do not occupy the candidate paths


# --- what happens: each goes on until @over, and says what it did; `windows`: (begin, end) of outages ---

def moved(over):
    """Both guests give all that sends new source ports."""
    bench.each(lambda name: channel.read(name, ["rm", "-f", steer.STOP_FILE]))
    with concurrent.futures.ThreadPoolExecutor(len(bench.GUESTS)) as pool:
        movers = [pool.submit(steer.move, name) for name in bench.GUESTS]
        over.wait()
        bench.each(lambda name: channel.read(name, ["touch", steer.STOP_FILE]))
        results = [mover.result() for mover in movers]
    return {"moves": sum(one["given"] for one in results), "refused": sum((one["refusals"] for one in results), [])}


def restarted(over):
    """Both daemons start again, in turns by order and by SIGKILL."""
    times = 0
    while not over.wait(RESTART_GAP_S):
        bench.each(lambda name: daemon.control(name, ("restart", "kill")[times % 2]))
        times += 1
    return {"restarts": times}


def path_failed(over):
    """The path of the busiest queue pair loses everything for 3 s, both ways, again and again."""
    windows = []
    while failover.wait_flows(True, over) and not over.wait(FAILURE_GAP_S):
        begun = time.time()
        failover.fail("both")
        # In the last one the program may have ended, whose farewell is no progress.
        if not over.is_set():
            windows.append((begun, time.time()))
    seen = {"failures": len(windows), "windows": windows}
    return seen if windows else dict(seen, state=bench.each(failover.during_failure))


def nic_failed(over):
    """The NIC of either end loses its link, or all packets, for 3 s, in turns."""
    windows = []
    while failover.wait_flows(False, over) and not over.wait(1):
        nic.wait_whole()
        fault = NIC_CASES[len(windows) % len(NIC_CASES)]
        begun = time.time()
        nic.cut(*fault)
        over.wait(NIC_OUTAGE_S)
        nic.mend(*fault)
        windows.append((begun, time.time()))
    return {"failures": len(windows), "windows": windows}


def held(name):
    """Packets that pacing has held so far, from the pinned map."""
    entries = json.loads(channel.read(name, ["bpftool", "-j", "map", "dump", "pinned",
                                             f"{cleanup.PINS}/qp_pace"]))
    return sum(entry["formatted"]["value"]["held"] for entry in entries)


def paced(over):
    """Pacing holds packets of both ends."""
    before = bench.each(held)
    over.wait()
    return {"held": sum(now - then for now, then in zip(bench.each(held), before))}


# --- the daemons for it ---

@contextlib.contextmanager
def by_hand():
    """Rules of the operator, no automatic moves; by the configuration, since a mode that is set ends with the daemon."""
    cleanup.make_ready(top="steer: { mode: manual }\n", members=owd.members(), key=owd.KEY)
    yield


@contextlib.contextmanager
def protected():
    """Automatic moves, failover and repair."""
    cleanup.make_fresh(top=failover.AUTO + ENDED, members=owd.members(), key=owd.KEY)
    owd.wait_synced()
    time.sleep(PATHS_WAIT_S)
    yield


@contextlib.contextmanager
def two_nics():
    with nic.design_up("nic"):
        yield


@contextlib.contextmanager
def pacing(top=PACED):
    cleanup.make_ready(top=top, members=owd.members(), key=owd.KEY)
    owd.wait_synced()
    try:
        for name in bench.GUESTS:
            bench.escapement(name, "pace", "setup-fq", "eth0")
            bench.escapement(name, "pace", "on")
        deadline = time.monotonic() + PACE_WAIT_S
        while not all(bench.each(lambda name: bench.escapement(name, "pace")["clock"]["usable"])) \
                and time.monotonic() < deadline:
            time.sleep(0.5)
        yield
    finally:
        steer.set_mode("observe")
        bench.each(lambda name: channel.run(name, ["escapement", "pace", "undo-fq", "eth0"]))


# --- gaps ---

class Gaps:
    """What the server receives of the client's, on both of its links; afterwards the longest time without anything new:
    in the outages, and without one."""

    def __enter__(self):
        server = state.guest(SERVER)
        self.folder = tempfile.TemporaryDirectory(prefix="escapement-gaps-")
        self.taps = [nicwire.Tap(one["netns"], one["tap"], os.path.join(self.folder.name, f"{number}.pcap"))
                     for number, one in enumerate((server, server["second"]))]
        self.packets = []
        return self

    def __exit__(self, *_):
        self.packets = [packet for tap in self.taps for packet in tap.stop()]
        self.folder.cleanup()

    def longest_ms(self, windows):
        """[of each outage], without one; as far as the program sends at all."""
        found, calm = [], []
        for address in perftest.addresses(CLIENT).values():
            times = nicwire.progress(self.packets, ipaddress.ip_address(str(address)).packed)
            if len(times) < FLOW_PACKETS:
                continue
            ends = [(begin, end) for begin, end in windows if times[0][0] < begin and end < times[-1][0]]
            found += [nicwire.longest_gap(times, begin, end)[0] * 1e3 for begin, end in ends]
            quiet = [at for at, _ in times if not any(begin < at < end + 1 for begin, end in windows)]
            calm += [(b - a) * 1e3 for a, b in zip(quiet, quiet[1:])
                     if not any(a < end + 1 and b > begin for begin, end in windows)]
        return [round(ms) for ms in found], round(max(calm, default=0))


def run(program, disturb, seconds):
    """What @program(seconds) says, what the disturbance says, the gaps and what soft-RoCE repaired meanwhile."""
    over, before = threading.Event(), bench.each(bench.rxe_counters)
    with Gaps() as gaps, concurrent.futures.ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(disturb, over) if disturb else None
        try:
            seen = program(seconds)
        finally:
            over.set()
        seen.update(disturbing.result() if disturbing else {})
    after = bench.each(bench.rxe_counters)
    seen["gaps_ms"], seen["calm_ms"] = gaps.longest_ms(seen.pop("windows", []))
    seen["repairs"] = {f"{name} {counter}": now[counter] - then[counter]
                       for name, then, now in zip(bench.GUESTS, before, after)
                       for counter in bench.REPAIRS if now[counter] != then[counter]}
    return seen
