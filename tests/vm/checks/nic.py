# SPDX-License-Identifier: BSD-2-Clause
"""Real queue pairs over a failure of their NIC: soft-RoCE on the NIC itself, and on a dummy device."""
import concurrent.futures
import contextlib
import ipaddress
import os
import statistics
import subprocess
import time

from emulation import channel, machine, perftest, state

from . import bench, cleanup
from .bench import CLIENT, SERVER

import nicwire

DUMMY, DUMMY_PORT = "roce0", 220  # 10.LEAF.220.2, which the leaf sends to the guest's first NIC
OUTAGE_SECONDS = 2.0
RETURN_SECONDS = 1.0
LEAD_SECONDS = 1.0
TAIL_SECONDS = 3.0  # of which the return's hold is a part
# A QP timeout of 537 ms, seven retries that soft-RoCE takes for no end of them.
QP_TIMEOUT = ("-u", "17")
QP_TIMEOUT_SECONDS = 0.537
NICE = 19  # perftest polls, and would leave nothing of an emulated CPU to the watch
SETTINGS = (f"nic: {{ probe_interval: 20ms, dead_after: 200ms, return_after: {RETURN_SECONDS * 1000:.0f}ms }}\n"
            "receipts: { mode: off }\nmesh: { pair_interval: 100ms }\n")
# ib_write_bw has its window full. Without the last packets retransmitted the gap would be the queue pair's timeout;
# a guest that stalls adds to it, as it does before the failure.
# A driver that goes takes its time: only a gap of nearly the whole outage fails.
GAP_SHARE = 0.9
BARS = " ▁▂▃▄▅▆▇█"
# (design, fault, ends that it befalls)
CASES = (
    ("nic", "carrier", (CLIENT,)), ("nic", "carrier", (SERVER,)),
    ("nic", "silent", (CLIENT,)), ("nic", "silent", (SERVER,)),
    ("nic", "crossed", (CLIENT, SERVER)),
    ("dummy", "carrier", (CLIENT,)), ("dummy", "admin", (CLIENT,)), ("dummy", "admin", (SERVER,)),
    ("dummy", "silent", (SERVER,)), ("dummy", "crossed", (CLIENT, SERVER)),
    ("dummy", "driver gone", (CLIENT,)),
)
FEW = (CASES[0], CASES[3], CASES[6], CASES[9])
RUNS = 0  # of every case, and the picture; 0: one of a few
ONLY = ""  # with RUNS: cases with one of these strings in their label (a,b); "picture": the picture
KEPT = {}  # {case: runs so far}, which outlives machines that the emulation killed


# --- the two designs ---

def dummy_address(name):
    return f"10.{state.guest(name)['leaf'][len('leaf'):]}.{DUMMY_PORT}.2"


def members(design):
    found = []
    for name in bench.GUESTS:
        guest = state.guest(name)
        second = guest["second"]
        nics = f"{guest['address']}|{second['address']}, {guest['address6']}|{second['address6']}"
        if design == "dummy":
            nics += f", {dummy_address(name)}={guest['address']}|{second['address']}"
        found.append({"targets": [guest["address"]],
                      "labels": {"host": name, "addresses": guest["address6"], "nics": nics}})
    return found


def make_dummy(name):
    """As an operator does it, by one command; and the route that BGP on the host would give."""
    guest = state.guest(name)
    other = dummy_address(bench.other(name))
    program = os.path.join(guest["share"], "bin", "escapement")
    out = channel.read(name, [program, "failover", "dummy", "add", DUMMY, "eth0",
                              f"{dummy_address(name)}/32", "--route", f"{other}/32", "--rxe"])
    subprocess.run(state.in_netns(guest["netns"], ["ip", "route", "replace",
                                                   f"{dummy_address(name)}/32", "via",
                                                   guest["address"], "dev", guest["tap"]]), check=True)
    return out


def remove_dummy(name):
    guest = state.guest(name)
    channel.run(name, ["escapement", "failover", "dummy", "remove", DUMMY])
    subprocess.run(state.in_netns(guest["netns"], ["ip", "route", "del", f"{dummy_address(name)}/32"]),
                   check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def design_up(design):
    options = {"sibling": "eth1"}
    try:
        if design == "dummy":
            bench.each(make_dummy)
            options["dummy"] = DUMMY
        cleanup.make_ready(options=options, top=SETTINGS, members=members(design), key=bytes(range(16)))
        yield
    finally:
        if design == "dummy":
            cleanup.make_ready()
            bench.each(remove_dummy)


def device(design):
    return f"rxe_{DUMMY}" if design == "dummy" else "rxe0"


# --- faults ---

def silence(name, number, verb):
    guest = state.guest(name)
    tap = guest if number == 0 else guest["second"]
    for pref, what in (("1", ["iif", tap["tap"]]), ("2", ["to", tap["address"]])):
        subprocess.run(state.in_netns(tap["netns"], ["ip", "rule", verb, "pref", pref, *what,
                                                     "blackhole"]), check=True)
    if number == 0:
        subprocess.run(state.in_netns(tap["netns"], ["ip", "rule", verb, "pref", "3", "to",
                                                     dummy_address(name), "blackhole"]), check=True)


def admin(name, up):
    """The addresses and neighbours that go with a NIC are put back as an operator's tools would."""
    guest = state.guest(name)
    lines = [f"ip link set eth0 {'up' if up else 'down'}"]
    if up:
        lines += [f"ip address replace {address} dev eth0" for address in machine.addresses(guest)]
        for gateway in (guest["gateway"], guest["gateway6"]):
            lines += [f"ip neighbour replace {gateway} lladdr {guest['gateway_mac']} dev eth0",
                      f"ip route replace default via {gateway} dev eth0"]
    channel.read(name, ["sh", "-c", "; ".join(lines)])


DRIVER = "/sys/bus/virtio/drivers/virtio_net"


def driver(name, there):
    """The NIC's driver goes, and with it the interface; it comes back with nothing of its own."""
    if not there:
        channel.read(name, ["sh", "-c", "basename $(readlink -f /sys/class/net/eth0/device) "
                            f"> /run/nic-device; cat /run/nic-device > {DRIVER}/unbind"])
        return
    channel.read(name, ["sh", "-c", f"cat /run/nic-device > {DRIVER}/bind"])
    admin(name, True)


def cut(fault, names):
    if fault == "crossed":
        machine.set_link(SERVER, 1, False)
        machine.set_link(CLIENT, 0, False)
    for name in names if fault != "crossed" else ():
        if fault == "carrier":
            machine.set_link(name, 0, False)
        elif fault == "silent":
            silence(name, 0, "add")
        elif fault == "admin":
            admin(name, False)
        elif fault == "driver gone":
            driver(name, False)


def mend(fault, names):
    if fault == "crossed":
        machine.set_link(SERVER, 1, True)
        machine.set_link(CLIENT, 0, True)
    for name in names if fault != "crossed" else ():
        if fault == "carrier":
            machine.set_link(name, 0, True)
        elif fault == "silent":
            silence(name, 0, "del")
        elif fault == "admin":
            admin(name, True)
        elif fault == "driver gone":
            driver(name, True)


# --- a run ---

class Run:
    """ib_write_bw, A to B, with a fault in its middle; what B's two links saw of it."""

    def __init__(self, folder, design, fault, names):
        self.fault, self.names = fault, names
        server = state.guest(SERVER)
        taps = [nicwire.Tap(server["netns"], server["tap"], os.path.join(folder, "first.pcap")),
                nicwire.Tap(server["second"]["netns"], server["second"]["tap"],
                            os.path.join(folder, "second.pcap"))]
        source = dummy_address(CLIENT) if design == "dummy" else state.guest(CLIENT)["address"]
        self.source = ipaddress.ip_address(source).packed
        seconds = int(LEAD_SECONDS + OUTAGE_SECONDS + TAIL_SECONDS + 1)
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(perftest.run, CLIENT, SERVER, "ib_write_bw", qps=1, nice=NICE,
                                      device=device(design), address=dummy_address
                                      if design == "dummy" else None,
                                      extra=("-s", "65536", "-D", str(seconds), *QP_TIMEOUT))
                self.wait_flow([tap.path for tap in taps], running)
                time.sleep(LEAD_SECONDS)
                self.break_and_mend()
                self.result = running.result()
        finally:
            packets = [packet for tap in taps for packet in tap.stop()]
        self.wrapped = sum(packet.wrapped for packet in packets)
        self.progress = nicwire.progress(packets, self.source)
        self.resumed = nicwire.resumed(packets, self.progress, self.source, self.cut_at)

    def wait_flow(self, paths, running):
        """By whichever NIC: on a machine that stalled, probes may have found one without replies."""
        deadline = time.monotonic() + 60
        while sum(nicwire.data_packets(path, self.source) for path in paths) < 100 and \
                not running.done() and time.monotonic() < deadline:
            time.sleep(0.1)

    def break_and_mend(self):
        self.cut_at = time.time()
        if self.fault != "none":
            cut(self.fault, self.names)
        time.sleep(OUTAGE_SECONDS)
        self.mended_at = time.time()
        if self.fault != "none":
            mend(self.fault, self.names)

    def gap(self):
        """To the end of the outage, and of what began in it: a driver takes its time to go."""
        end = max(self.mended_at, self.cut_at + self.resumed) if self.wrapped else self.mended_at
        return nicwire.longest_gap(self.progress, self.cut_at - 0.05,
                                   min(end, max(self.mended_at, self.progress[-1][0])))[0]

    def gap_before(self):
        """With nothing wrong: what a gap is on this machine now."""
        return nicwire.longest_gap(self.progress, self.progress[0][0], self.cut_at)[0]

    def gap_back(self):
        end = min(self.progress[-1][0], self.mended_at + RETURN_SECONDS + 2.5)
        return nicwire.longest_gap(self.progress, self.mended_at, end)[0] \
            if end > self.mended_at else float("inf")

    def rates(self):
        """Before, meanwhile, and after the return, in Mbit/s."""
        back = self.mended_at + RETURN_SECONDS + 0.7
        spans = ((self.progress[0][0], self.cut_at), (self.cut_at, self.mended_at),
                 (back, self.progress[-1][0]))
        return [nicwire.mean(self.progress, *span) / 1e6 for span in spans]

    def picture(self, most):
        """One character for each tenth of a second from the cut on, and a second before."""
        begin = self.cut_at - 1
        values = nicwire.rates(self.progress, begin, begin + 1 + OUTAGE_SECONDS + TAIL_SECONDS)
        return "".join(BARS[min(len(BARS) - 1, round(value / most * (len(BARS) - 1)))]
                       for value in values)


def label_of(design, fault, names):
    where = {(CLIENT,): "initiator", (SERVER,): "target"}.get(names, "both hosts")
    return f"rxe on {'its NIC' if design == 'nic' else 'a dummy'}, {fault}, {where}"


def check_case(tap, folder, case):
    design, fault, names = case
    label = label_of(*case)
    wait_whole()
    run = Run(folder, design, fault, names)
    good = tap.check(run.result["good"], f"{label}: no queue pair failed",
                     run.result["client_output"][-600:] + run.result["server_output"][-300:])
    if not run.progress:
        tap.check(False, f"{label}: packets were seen")
        return None
    before, meanwhile, after = run.rates()
    limit = QP_TIMEOUT_SECONDS + 2 * run.gap_before() if fault != "driver gone" else OUTAGE_SECONDS * GAP_SHARE
    tap.check(run.gap() < limit and run.wrapped,
              f"{label}: delivery goes on, gap {run.gap() * 1000:.0f} ms, below {limit * 1000:.0f} "
              f"({run.gap_before() * 1000:.0f} before the failure), new data by another NIC "
              f"{run.resumed * 1000:.0f} ms after the cut, at the return a gap of "
              f"{run.gap_back() * 1000:.0f} ms; {before:.0f} Mbit/s before, {meanwhile:.0f} "
              f"meanwhile, {after:.0f} after", f"{run.wrapped} packets in UDP")
    return run if good else None


def is_whole(name):
    report = bench.escapement(name, "failover")
    return all(pair[nic]["state"] == "up" for pair in report["pairs"] for nic in ("nic", "sibling")) \
        and all(used["route"] == "direct" for used in report["used"])


def wait_whole(seconds=30):
    deadline = time.monotonic() + seconds
    while not all(bench.each(is_whole)) and time.monotonic() < deadline:
        time.sleep(0.2)


def repeat(tap, folder, cases, runs):
    """{case: runs}: each case so often, the designs one after the other."""
    for design in ("nic", "dummy"):
        left = [case for number in range(runs) for case in cases
                if case[0] == design and len(KEPT.get(case, ())) <= number]
        if not left:
            continue
        with design_up(design):
            before = bench.each(retransmitted)
            for case in left:
                KEPT.setdefault(case, []).append(check_case(tap, folder, case))
            again = [now - old for now, old in zip(bench.each(retransmitted), before)]
            tap.check(sum(again) > 0, f"rxe on {design}: packets were sent once more by another NIC, "
                      f"{' and '.join(map(str, again))}", again)
    return KEPT


def retransmitted(name):
    return bench.escapement(name, "failover")["repair"]["packets"]


def report(tap, found):
    for case, runs in found.items():
        good = [run for run in runs if run]
        if good:
            tap.note(f"{label_of(*case)}: {len(good)} of {len(runs)} without a queue pair's error; "
                     f"gap {spread([run.gap() for run in good])} (before the failure "
                     f"{spread([run.gap_before() for run in good])}), new data by another NIC after "
                     f"{spread([run.resumed for run in good])}")


def spread(seconds):
    return f"{statistics.median(seconds) * 1000:.0f} ms in the median, {max(seconds) * 1000:.0f} at most"


def draw(tap, folder):
    """Throughput over time, three times: no failure; a NIC fails without failover, and with it."""
    runs = {}
    with design_up("dummy"):
        wait_whole()
        runs["no failure"] = Run(folder, "dummy", "none", ())
        runs["a NIC fails, with failover"] = Run(folder, "dummy", "carrier", (CLIENT,))
        wait_whole()
        bench.each(lambda name: channel.read(name, ["escapement", "off"]))
        runs["a NIC fails, without"] = Run(folder, "dummy", "carrier", (CLIENT,))
        bench.each(lambda name: channel.read(name, ["escapement", "mode", "observe"]))
    most = max(max(nicwire.rates(run.progress, run.cut_at - 1, run.cut_at + 5))
               for run in runs.values() if run.progress)
    tap.note(f"each mark 100 ms, the highest {most / 1e6:.0f} Mbit/s; the NIC fails at second 1, is "
             f"back at {1 + OUTAGE_SECONDS:.0f}")
    for label, run in runs.items():
        tap.note(f"{label:26}|{run.picture(most)}| gap {run.gap() * 1000:.0f} ms")


def test_nic(tap, folder):
    """A NIC fails under ib_write_bw: carrier, admin down, silence, both hosts; and returns."""
    bench.need_kernel((6, 6), "tcx, which NIC failover needs")
    wanted = ONLY.split(",")
    if RUNS and (not ONLY or "picture" in wanted):
        draw(tap, folder)
    cases = [case for case in CASES if any(part in label_of(*case) for part in wanted)] \
        if RUNS else FEW
    report(tap, repeat(tap, folder, cases, RUNS or 1))


def repeats():
    """How often machines that the emulation killed are booted again."""
    return max(1, 2 * RUNS)
