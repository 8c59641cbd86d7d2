# SPDX-License-Identifier: BSD-2-Clause
"""The demonstration: real queue pairs across an ECMP fabric, compared packet by packet.

Run by tests/demo. Removes everything that it made, also when it is interrupted.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] += "/lib"

import clocklab
import diagnoselab
import labtest

os.environ["LAB"] = "demo"  # whose machines `emulation` asks about
from emulation import death, state

BUILD = os.environ.get("ESCAPEMENT_BUILD", os.path.join(TOP, "build"))
LAB = os.path.join(TOP, "tests", "lab", "lab")
VM = os.path.join(TOP, "tests", "vm", "vm")
NO_MACHINES = 77  # vm's exit status: no machines are available here
ENV = dict(os.environ, LAB="demo", ESCAPEMENT_BUILD=BUILD, LC_ALL="C.UTF-8")
EVENT_WIDTH = 230
SECONDS = 10


class Failed(Exception):
    """A sentence for the operator."""


def step(title):
    print(f"\n\033[1m== {title}\033[0m" if sys.stdout.isatty() else f"\n== {title}", flush=True)


def say(text):
    print(text, flush=True)


def call(*command, timeout=300):
    """(exit code, stdout, stderr)"""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, env=ENV)
    return done.returncode, done.stdout, done.stderr


def good(*command, timeout=300):
    code, out, err = call(*command, timeout=timeout)
    if code:
        raise Failed(f"{' '.join(command)} failed: {(err or out).strip()}")
    return out


class Node:
    """A lab host or an emulated machine: where commands run."""

    def __init__(self, name, machine):
        self.name, self.machine = name, machine

    def run(self, *command, timeout=300):
        if self.machine:
            return good(VM, "exec", self.name, "-t", str(timeout), "--", *command,
                        timeout=timeout + 20)
        return good(LAB, "exec", self.name, "--", *command, timeout=timeout)

    def shown(self, *command, lines=None, timeout=300):
        """Runs a command as an operator would type it, and shows its output."""
        say(f"\n{self.name}# {' '.join(command)}")
        out = self.run(*command, timeout=timeout).rstrip().splitlines()
        for line in out[:lines]:
            say("  " + line)
        if lines and len(out) > lines:
            say(f"  ... {len(out) - lines} more lines")

    def qps(self):
        return json.loads(self.run("escapement", "-j", "qp"))["qps"]


class Flow(threading.Thread):
    """Traffic in the background."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.result, self.error = function, None, None

    def run(self):
        try:
            self.result = self.function()
        except Exception as error:  # shown by ended()
            self.error = error

    def ended(self):
        self.join(SECONDS + 120)
        if self.is_alive():
            raise Failed("the traffic did not end")
        if self.error:
            raise Failed(f"the traffic failed: {self.error}")
        return self.result


def fabric():
    step("1. A fabric in network namespaces: 2 leaves, 2 spines, kernel ECMP, links of 100 Mbit/s")
    say("Each host's clock gets an offset of up to a second and a drift of up to 30 ppm.")
    good(LAB, "down")
    good(LAB, "up", "--hosts", "4", "--skew", "--leaves", "2", "--spines", "2", "--rate", "100mbit",
         "--queue", "1000000")
    say(good(LAB, "status").rstrip())


def machines(wanted):
    """Two soft-RoCE machines on the leaves; False when none are available here."""
    step("2. Two emulated machines with soft-RoCE (rdma_rxe), their NICs attached to the leaves")
    if not wanted:
        say("Skipped. The demonstration continues with roceflow, a RoCEv2 endpoint of the tests.")
        return False
    code, out, err = call(VM, "prepare", timeout=600)
    if code == NO_MACHINES:
        say(f"Not available here: {(err or out).strip().splitlines()[-1]}")
        say("The demonstration continues with roceflow, a RoCEv2 endpoint of the tests, on the hosts.")
        return False
    if code:
        raise Failed(f"vm prepare: {(err or out).strip()}")
    start = time.monotonic()
    good(VM, "up", "A:leaf1", "B:leaf2", timeout=180)
    say(f"A on leaf1 and B on leaf2 booted in {time.monotonic() - start:.0f} s.")
    return True


def daemons(have_machines):
    step("3. escapementd on every host")
    # Three times the default: this machine emulates two others, and stalls now and then. The counts
    # of the first flow have to be there when they are compared, however busy the machine is.
    clocklab.append_config(Standing(), "paths: { probe_interval: 2ms, dead_after: 10ms }\n"
                           "qps: { idle: 10m }\n")
    good(LAB, "start")
    if have_machines:
        good(VM, "start", timeout=300)
    say("One daemon per host, in mode observe: it attaches its programs, counts packets and\n"
        "probes its peers. No packet of a user is changed.")


def local_now(host, monotonic_ns):
    """A host's clock at an instant, with its offset and drift (maps/localtime.h)."""
    return (monotonic_ns + host["clock_offset_ns"] +
            monotonic_ns * host["clock_drift_ppb"] // 1_000_000_000)


def fabric_now(model, local_ns):
    since = local_ns - model["ref_local_ns"]
    return model["ref_fabric_ns"] + since + round(since * model["rate_ppb"] * 1e-9)


def fabric_time():
    """The hosts' readings at one instant, compared with the true time, which the lab knows."""
    step("4. Fabric time")
    one = Node("h1", False)
    code, out, err = call(LAB, "exec", "h1", "--", "escapement", "clock", "wait", "--bound", "10us",
                          "--timeout", "20s")
    if code:
        raise Failed(f"the clock did not reach a bound of 10 us: {(err or out).strip()}")
    time.sleep(2)
    one.shown("escapement", "clock")
    one.shown("escapement", "peers")
    hosts = json.loads(good(LAB, "status", "-j"))["hosts"]
    clocks = {host["name"]: json.loads(Node(host["name"], False).run("escapement", "-j", "clock"))
              for host in hosts}
    instant = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    local = {host["name"]: local_now(host, instant) for host in hosts}
    fabric = {name: fabric_now(clock["model"], local[name]) for name, clock in clocks.items()}
    say("\nReadings at one instant (the hosts share a kernel, so the lab knows the true time):")
    for name in fabric:
        say(f"  {name}: local clock minus h1's {(local[name] - local['h1']) / 1e6:+14.6f} ms; "
            f"fabric time minus h1's {fabric[name] - fabric['h1']:+5d} ns "
            f"(bound {clocks[name]['bound_ns']} ns)")
    inside = all(abs(fabric[a] - fabric[b]) <= clocks[a]["bound_ns"] + clocks[b]["bound_ns"]
                 for a in fabric for b in fabric)
    say("OK: each difference is within the sum of the two bounds." if inside else
        "FAILED: a difference exceeds the sum of the two bounds.")
    return inside


def perftest():
    return json.loads(good(VM, "perftest", "A", "B", "ib_write_bw", "--qps", "4", "--json", "--",
                           "-s", "65536", "-D", str(SECONDS), timeout=SECONDS + 100))


def roceflow():
    served, sent = labtest.flow(Standing(), "h3", "h1", "--qps", "2", "--op", "send", "--size", "16384", "--rate",
                                "20mbit", "--seconds", str(SECONDS), timeout=SECONDS + 60)
    return {"client": sent, "server": served}


def follow(sender, receiver, have_machines):
    """What an operator types while the queue pairs send."""
    sender.shown("escapement", "qp")
    say("\nOne line is one direction of a queue pair: tx is sent by this host, rx is received. The\n"
        "four lines with most bytes are the writes; the other direction carries their ACKs."
        if have_machines else
        "\nOne line is one direction of a queue pair: tx is sent by this host, rx is received.")
    receiver.shown("escapement", "status")
    receiver.shown("bpftool", "map", "dump", "pinned", "/sys/fs/bpf/escapement/qps", lines=34)
    say("The BPF maps have names and types (BTF): bpftool reads them without Escapement.")


def device_counts(node):
    """Packets sent and received by soft-RoCE's own counters."""
    folder = "/sys/class/infiniband/rxe0/ports/1/hw_counters/"
    return tuple(int(node.run("cat", folder + name)) for name in ("sent_pkts", "rcvd_pkts"))


def beside_the_device(node, before):
    """The same traffic by soft-RoCE's own counters."""
    device = [now - then for now, then in zip(device_counts(node), before)]
    ours = [sum(row["packets"] for row in node.qps() if row["direction"] == direction)
            for direction in ("tx", "rx")]
    same = device == ours
    say(f"  {node.name}: soft-RoCE's counters {device[0]:,} sent, {device[1]:,} received; "
        f"escapement {ours[0]:,} and {ours[1]:,}: {'equal' if same else 'DIFFERENT'}")
    return same


def wait_for_traffic(node):
    """perftest takes some seconds to connect on an emulated machine."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and len(node.qps()) < 4:
        time.sleep(0.3)
    time.sleep(3)


def spines():
    """Which links the leaf's ECMP chose."""
    _, out, _ = call(LAB, "exec", "leaf1", "--", "ip", "-s", "-j", "link", "show")
    sent = {link["ifname"]: link["stats64"]["tx"]["packets"] for link in json.loads(out)
            if re.match(r"spine|up", link["ifname"])}
    say("leaf1's ECMP sent the traffic to its links: " +
        ", ".join(f"{name} {packets:,} packets" for name, packets in sorted(sent.items())))


def compare(sender, receiver):
    """Each queue pair's packets as the sender's tc egress and the receiver's XDP counted them."""
    agree, total = True, 0
    for here, there, what in ((sender, receiver, "->"), (receiver, sender, "<-")):
        left = {(row["src"], row["dst"], row["dest_qpn"]): row for row in here.qps()
                if row["direction"] == "tx"}
        came = {(row["src"], row["dst"], row["dest_qpn"]): row for row in there.qps()
                if row["direction"] == "rx"}
        for key in sorted(set(left) | set(came)):
            sent, heard = left.get(key, {}), came.get(key, {})
            same = all(sent.get(name) == heard.get(name) for name in ("packets", "bytes"))
            agree &= same
            total += sent.get("packets", 0)
            say(f"  {sender.name} {what} {receiver.name}  QP {key[2]:>5}  "
                f"sent {sent.get('packets', 0):>9,} packets {sent.get('bytes', 0):>13,} bytes   "
                f"received {heard.get('packets', 0):>9,} packets "
                f"{heard.get('bytes', 0):>13,} bytes   {'equal' if same else 'DIFFERENT'}")
    return agree and total > 0, total


class Standing(labtest.Lab):
    """The demonstration's lab, which is up already, as the lab's tests use it."""

    def __init__(self):
        super().__init__("demo")
        self.name = self.env["LAB"] = "demo"


def one_apart(lab):
    """Four source ports in a row, three on one spine and one on the other; and a port from h2 to
    h4 that shares that one's spine, as leaf1's kernel reports them."""
    ours = clocklab.spines_of(lab, "h1", "h3", 50000, 128)
    theirs = clocklab.spines_of(lab, "h2", "h4", 52000, 64)
    for first in range(50000, 50125):
        row = [ours.get(first + n) for n in range(4)]
        alone = [first + n for n in range(4) if row.count(row[n]) == 1]
        if None not in row and len(alone) == 1:
            bad = alone[0]
            meets = [port for port in theirs if theirs[port] == ours[bad]]
            if meets:
                return diagnoselab.Plan(first, bad, ours[bad], random.choice(meets))
    raise Failed("no four source ports of which one is alone on its spine")


def told(lab, kind, since_ns, good=lambda event: True):
    """Prints the event as an operator reads it; None when there is none within 20 s."""
    event = diagnoselab.wait_event(lab, kind, since_ns, 20, good)
    if event:
        lines = lab.good("h1", "escapement", "events", "--since",
                         f"@{since_ns // 10**9}").splitlines()
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["time_ns"] // 10**9)) + \
            f".{event['time_ns'] // 10**6 % 1000:03}"
        line = next(line for line in lines if line.startswith(f"{when}  {kind} "))
        say("  " + (line if len(line) <= EVENT_WIDTH else line[:EVENT_WIDTH] + " ..."))
    return event


def collision():
    """One of four queue pairs shares its spine with another flow: which one is slow."""
    step("7. One queue pair of four shares its spine with another flow")
    lab, one = Standing(), Node("h1", False)
    plan = one_apart(lab)
    say(f"h1 sends to h3 on four queue pairs, source ports {plan.first_port} to "
        f"{plan.first_port + 3}, 15 Mbit/s each. ECMP sends\nport {plan.bad_port} alone over "
        f"{plan.spine}.")
    with diagnoselab.Workload(lab, plan.first_port, "--qp-rate", "15m") as workload:
        workload.settle()
        one.shown("escapement", "top", "-n", "1", lines=6)
        say(f"\nh2 sends to h4 over {plan.spine} as well, at the rate of the link.")
        with diagnoselab.Collider(lab, plan) as collider:
            onset_ns = collider.onset_ns()
            named = told(lab, "qp_outlier", onset_ns,
                         lambda event: event["seen"]["sport"] == plan.bad_port)
            one.shown("escapement", "top", "-n", "1", lines=6)
        say("\nThe other flow has ended.")
        cleared = named and told(lab, "qp_outlier_cleared", onset_ns)
    others = [event for event in lab.events("h1", "qp_outlier", since_ns=workload.begun_ns)
              if event["seen"]["sport"] != plan.bad_port]
    if not named or others:
        say("FAILED: the queue pair was not reported." if not named else
            f"FAILED: another queue pair was reported: {others[0]['subject']}.")
        return False
    say(f"OK: reported {(named['time_ns'] - onset_ns) / 1e9:.1f} s after the other flow's first "
        "packet, and no other queue pair was." + ("" if cleared else " FAILED: the end was not reported."))
    return bool(cleared)


def lose_at(lab, spine, address, lost):
    """The spine drops the packets to an address without an ICMP error; or no longer."""
    lab.good(spine, "ip", "route", "add" if lost else "del", "blackhole", f"{address}/32")


def is_watched(lab, host, qps):
    """Each queue pair is on a path that is probed, and there is another one."""
    paths = lab.json(host, "paths")["paths"]
    return sum(row["by"] == "automatic" for row in lab.json(host, "steer")["steers"]) >= qps and \
        len({path.get("group") for path in paths if path["state"] == "up"} - {None}) > 1


def busy_ports(lab, host, address):
    """Source ports on the wire of the queue pairs that a host sends on now."""
    def sent():
        return {(row["dest_qpn"], row.get("steered_sport", row["sport"])): row["packets"]
                for row in lab.json(host, "qp")["qps"]
                if row["direction"] == "tx" and row["dst"] == address}
    before = sent()
    time.sleep(0.3)
    return {port for (qpn, port), packets in sent().items() if packets > before.get((qpn, port), 0)}


def one_death(lab, steered):
    """
    h1 writes to h3, and the busiest spine drops the packets for a second: (which spine, when in ns
    since the epoch, the longest wait of a queue pair for a packet in ms).
    """
    address, qps = lab.host("h3")["address"], 4
    flow = labtest.Flow(lab, "--interface", "eth1", "--qps", str(qps), "--qp-rate", "8m", "--op", "write",
                        "--give-up", "60", "--seconds", "300", server="h3", server_options=("--silence", "4"))
    with flow:
        time.sleep(1)
        if steered and not labtest.wait_for(
                lambda: all(is_watched(lab, host, qps) for host in ("h1", "h3")), 30, 0.3):
            raise Failed("the paths between h1 and h3 were not identified")
        ports = busy_ports(lab, "h1", address)
        via = [path["via"] for path in json.loads(lab("path", "h1", "h3", "-j", "--sport",
                                                      ",".join(map(str, sorted(ports)))))]
        spine = max(sorted(set(via)), key=via.count)
        dead_ns, begun = time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        lose_at(lab, spine, address, True)
        time.sleep(1)
        lose_at(lab, spine, address, False)
        ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.sleep(0.7)
        _, served = flow.end()
    waits = [(silence["to_ns"] - silence["from_ns"]) / 1e6 for qp in served["qps"]
             for silence in qp["silences"] if silence["to_ns"] >= begun and silence["from_ns"] <= ended]
    return spine, dead_ns, max(waits, default=0)


def dead_path():
    """A spine that drops packets: with ECMP alone, and with failover."""
    step("8. A spine drops packets, and no link goes down")
    lab, one = Standing(), Node("h1", False)
    say("h1 writes to h3 on four queue pairs. For one second a spine drops all packets to h3; no\n"
        "link goes down, and no ICMP error is sent.")
    spine, _, plain = one_death(lab, False)
    say(f"\nECMP alone, {spine} drops packets: a queue pair of h3 waited {plain:.0f} ms for its next "
        "packet.")
    try:
        for node in (one, Node("h3", False)):
            node.shown("escapement", "steer", "auto", "on")
        spine, dead_ns, steered = one_death(lab, True)
        one.shown("escapement", "paths", "h3")
        say("")
        event = told(lab, "path_failover", dead_ns)
    finally:
        for node in (one, Node("h3", False)):
            node.run("escapement", "mode", "observe")
    good_enough = bool(event) and steered < plain / 2
    say(f"\nOK: with failover, {spine} drops packets: the longest wait was {steered:.1f} ms. The first\n"
        "packet that finds its path dead takes the backup; ACKs do the same at their sender."
        if good_enough else
        f"FAILED: with failover, {spine} drops packets: a queue pair waited {steered:.1f} ms.")
    return good_enough


def textfile(node, directory):
    step("9. Metrics and events")
    node.shown("grep", "-E", "^escapement_(roce_packets|qp_packets|clock_error_bound|probe_owd_floor_seconds|qp_owd_p99_seconds|diagnoses_total)",
               f"{directory}/escapement.prom", lines=10)
    node.shown("escapement", "events", lines=8)


def show_perftest(result):
    summary = result["summary"]
    if "bandwidth" in summary:
        say(f"\nib_write_bw reports {summary['bandwidth'] * 8.388608:.1f} Mbit/s on average.")


def conclusion(agree, total, sender, receiver):
    rows = sender.qps()
    again = sum(row.get("retransmits", 0) for row in rows)
    naks = sum(row.get("naks", 0) for row in rows)
    step("Result")
    say(f"OK: {total:,} RoCEv2 packets crossed the fabric, and the sender's tc egress and the "
        "receiver's XDP counted the same." if agree else
        "FAILED: the counts of the two ends differ (see DIFFERENT above).")
    say(f"{sender.name} retransmitted {again:,} packets and received {naks:,} NAKs" +
        (": soft-RoCE's go-back-N after a loss or a timeout." if again or naks else
         ": nothing was lost on the way.") + f" Escapement changed no packet of {sender.name}.")
    return agree


def show(with_machines):
    fabric()
    have_machines = machines(with_machines)
    daemons(have_machines)
    sender, receiver = (Node("A", True), Node("B", True)) if have_machines else \
        (Node("h1", False), Node("h3", False))
    in_step = fabric_time()
    step("5. Queue pairs, and what the daemon shows while they send")
    flows = [Flow(roceflow)]
    say("roceflow sends on 2 queue pairs from h1 to h3" +
        (", ib_write_bw (perftest) writes on 4 queue pairs from A to B." if have_machines else "."))
    if have_machines:
        flows.append(Flow(perftest))
    devices = {node: device_counts(node) for node in (sender, receiver)} if have_machines else {}
    for flow in flows:
        flow.start()
    wait_for_traffic(sender)
    follow(sender, receiver, have_machines)
    for flow in flows:
        flow.ended()
    time.sleep(0.5)
    if have_machines:
        show_perftest(flows[1].result)
    step("6. The traffic has ended: counts of both ends compared")
    agree, total = compare(sender, receiver)
    if have_machines:
        agree &= all([beside_the_device(node, before) for node, before in devices.items()])
        also, more = compare(Node("h1", False), Node("h3", False))
        agree, total = agree and also, total + more
    spines()
    named = collision()
    survived = dead_path()
    textfile(Node("h1", False), "/run/escapement-lab/demo/h1/textfile")
    return conclusion(agree, total, sender, receiver) and in_step and named and survived


def clear_up():
    """Removes all that the demonstration made; an interrupt does not stop it."""
    before = {number: signal.signal(number, signal.SIG_IGN)
              for number in (signal.SIGINT, signal.SIGTERM)}
    call(VM, "down")
    call(LAB, "down")
    for number, handler in before.items():
        signal.signal(number, handler)


def emulator_failed():
    """
    True when a machine ended by a kernel panic without a BPF program in its trace: QEMU without KVM
    now and then gives a kernel wrong CPU flags (tests/vm/README.md). Any other end is a failure.
    """
    for name in state.names():
        console = death.read_console(name)
        if death.is_emulators(console):
            kept = os.path.join(BUILD, f"demo-console-{name}.log")
            with open(kept, "w", encoding="utf-8") as file:
                file.write(console)
            say(f"\n!!! The emulated machine {name} ended with a kernel panic, without a BPF program "
                "in its trace\n"
                f"!!! (console: {kept}):")
            for line in death.panic_lines(console)[:3]:
                say(f"!!!   {line[:150]}")
            return True
    return False


def show_again():
    """Without machines when the emulator failed twice."""
    for last in (False, True):
        try:
            return show(with_machines=True)
        except (Failed, RuntimeError, subprocess.TimeoutExpired):
            if not emulator_failed():
                raise
        say("!!! Starting again" + (", without machines." if last else "."))
        clear_up()
    return show(with_machines=False)


def main():
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    start, result = time.monotonic(), 1
    try:
        result = 0 if show_again() else 1
    except KeyboardInterrupt:
        say("\ndemo: interrupted")
        result = 130
    except (Failed, RuntimeError, subprocess.TimeoutExpired, OSError, ValueError) as error:
        print(f"demo: {error}", file=sys.stderr)
    finally:
        clear_up()
    say(f"Everything was removed. Total time {time.monotonic() - start:.0f} s.")
    return result


if __name__ == "__main__":
    sys.exit(main())
