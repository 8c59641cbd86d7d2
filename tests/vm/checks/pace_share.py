# SPDX-License-Identifier: BSD-2-Clause
"""Quality of service: how two jobs of soft-RoCE queue pairs share the slow port of `pace`."""
import json
import statistics
import time

from emulation import perftest

from . import paceworld as world

MESSAGE_BYTES, MTU = 65536, 1024
QPS_WEIGHTED, QPS_EQUAL = 2, 4  # of each of the two jobs
GOLD_TCLASS = 104  # DSCP 26: the class `gold`
# Well above what 64 packets that soft-RoCE hands over at once, and the late timestamps of a busy emulated
# machine, make of a delay; four times that is the queue.
THRESHOLD, LIMIT_BYTES = "60ms", 600000
WARM_SECONDS, PLAIN_SECONDS = 20, 5
SHARE_SECONDS, OWN_SECONDS = 14, 5  # of a reading; ib_write_bw prints a row so often
PORTS = (19110, 19111)
PSN_SPACE = 1 << 24
NEXT = "==== next"  # between the outputs of commands
# The aims, for the median of several runs, and what a single one on a busy machine has to reach.
AIM_RATIO, AIM_JAIN, AIM_EQUAL = (2.7, 3.3), 0.98, (0.9, 1.1)
ONE_RATIO, ONE_JAIN, ONE_EQUAL = (2.3, 3.7), 0.95, (0.75, 1.33)
RUNS = 1


def jain(values):
    """Jain's index: 1 when all have the same, 1/n when one has all."""
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values) or 1)


def tool(device, number, qps):
    """It goes on until it is ended, so no reading meets its last seconds. It polls: only with what
    the kernel leaves, which is not much."""
    return (f"chrt -i 0 stdbuf -oL ib_write_bw -d {device} -x 1 -p {PORTS[number]} -F -q {qps} "
            f"-s {MESSAGE_BYTES} -m {MTU} -u 18 -t 16 --run_infinitely -D {OWN_SECONDS}")


def start_jobs(qps):
    """Two ib_write_bw at once, each with so many queue pairs; the first is gold."""
    clients = ""
    for number, port in enumerate(PORTS):
        name = f"{world.FOLDER}/job{number}"
        tclass = f"--tclass={GOLD_TCLASS}" if number == 0 else ""
        world.must(f"rm -f {name}.*; setsid {tool('rxb', number, qps)} >{name}.server 2>&1 </dev/null & "
                   f"until grep -q ':{port:04X} 0*:0000 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done")
        clients += (f"setsid {tool('rxa', number, qps)} {tclass} 127.0.0.1 >{name}.client 2>&1 "
                    "</dev/null & ")
    world.must(clients + "sleep 0.1")


def outputs_of(*commands):
    """The output of each: a busy emulated machine takes its time for every request."""
    return world.must(f"; echo '{NEXT}'; ".join(commands)).split(NEXT + "\n")


JOB_OUTPUT = [f"cat {world.FOLDER}/job{number}.client" for number in range(len(PORTS))]
QUEUE_PAIRS = "rdma -j res show qp link rxa/1"


def psns_of(text):
    """{QPN of a sender: PSN that it sends next}, as soft-RoCE itself has it."""
    return {row["lqpn"]: row["sq-psn"] for row in json.loads(text) if row.get("type") == "RC"}


def wait_running(qps):
    """The QPNs of both jobs, when all of their queue pairs are there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        *outputs, shown = outputs_of(*JOB_OUTPUT, QUEUE_PAIRS)
        qpns = [[int(qpn, 16) for side, qpn in perftest.QPN.findall(text) if side == "local"]
                for text in outputs]
        now = psns_of(shown)
        if all(len(job) == qps and all(qpn in now for qpn in job) for job in qpns):
            return qpns
        time.sleep(0.5)
    raise TimeoutError(world.must(f"tail -n 5 {world.FOLDER}/job*"))


class Reading:
    """Where all queue pairs are now, what the port dropped, what the emulated CPU spent."""

    def __init__(self):
        pairs, port, ticks = outputs_of(QUEUE_PAIRS, "ip netns exec pacenet tc -s -j qdisc show dev b1",
                                           "head -n 1 /proc/stat")
        self.at = time.monotonic()
        self.psns = psns_of(pairs)
        self.drops = json.loads(port)[0]["drops"]
        ticks = [int(word) for word in ticks.split()[1:9]]
        self.kernel_ticks, self.all_ticks = ticks[2] + ticks[5] + ticks[6], sum(ticks)


def progress(before, after):
    """Packets that each queue pair went on by; going back takes some away again."""
    half = PSN_SPACE // 2
    return {qpn: (after[qpn] - before[qpn] + half) % PSN_SPACE - half for qpn in before}


def own_figures():
    """MiB/s of each job in its newest row, as ib_write_bw prints it."""
    rows = [perftest.RESULT_ROW.findall(text) for text in outputs_of(*JOB_OUTPUT)]
    return [float(row[-1][3]) if row else float("nan") for row in rows]


def share(tap, label, qpns):
    """What each queue pair of both jobs gets in a while: [[packets], [packets]]."""
    first = Reading()
    time.sleep(SHARE_SECONDS)
    last = Reading()
    moved = progress(first.psns, last.psns)
    jobs = [[max(moved[qpn], 0) for qpn in job] for job in qpns]
    figures, clock = own_figures(), world.query("a", "pace")["clock"]
    spent = (last.kernel_ticks - first.kernel_ticks) / max(last.all_ticks - first.all_ticks, 1)
    tap.note(f"{label}: packets of each queue pair {jobs}, "
             f"{sum(map(sum, jobs)) / (last.at - first.at):.0f} packets/s, "
             f"{last.drops - first.drops} dropped; ib_write_bw itself: {figures[0]:.2f} and "
             f"{figures[1]:.2f} MiB/s; the kernel took {spent:.0%} of the CPU, the clock's bound is "
             f"{clock['bound_ns'] / 1000:.0f} us")
    tap.note(f"{label}: {ratio_of(jobs):.2f} to 1, Jain's index {jain(sum(jobs, [])):.3f}")
    return jobs


def ratio_of(jobs):
    return sum(jobs[0]) / max(sum(jobs[1]), 1)


def set_gold(weight):
    for name, weights in (("gold", ["--weight", str(weight)]), ("default", [])):
        world.query("a", "pace", "set", "--class", name, "--threshold", THRESHOLD, *weights)


def within(value, bounds):
    return bounds[0] <= value <= bounds[1]


def jobs_run(tap, qps, readings):
    """Starts both jobs; readings: (label, what comes before it, seconds until it)."""
    begun = time.monotonic()
    start_jobs(qps)
    try:
        qpns = wait_running(qps)
        tap.note(f"{2 * qps} queue pairs are there after {time.monotonic() - begun:.0f} s")
        for label, prepare, seconds in readings:
            prepare()
            time.sleep(seconds)
            yield share(tap, label, qpns)
    finally:
        world.shell("kill $(pidof ib_write_bw); while pidof ib_write_bw; do sleep 0.2; done")


def one_run(tap):
    """Weights 3 and 1; then equal ones and more queue pairs; then those without pacing."""
    set_gold(3)
    world.query("a", "pace", "on")
    weighted, = jobs_run(tap, QPS_WEIGHTED,
                         [("weights 3 and 1", lambda: None, WARM_SECONDS)])
    set_gold(1)
    # Last: its standing queue is hard on the clocks.
    equal, plain = jobs_run(tap, QPS_EQUAL, [
        ("equal", lambda: None, WARM_SECONDS),
        ("without pacing", lambda: world.query("a", "pace", "off"), PLAIN_SECONDS)])
    return equal, weighted, plain


def judge(tap, runs):
    several = len(runs) > 1
    ratio_bounds, least, equal_bounds = (AIM_RATIO, AIM_JAIN, AIM_EQUAL) if several else \
        (ONE_RATIO, ONE_JAIN, ONE_EQUAL)
    indices = [jain(sum(equal, [])) for equal, _, _ in runs]
    halves = [ratio_of(equal) for equal, _, _ in runs]
    ratios = [ratio_of(weighted) for _, weighted, _ in runs]
    index, half, ratio = map(statistics.median, (indices, halves, ratios))
    tap.check(index >= least, f"pace_share: {2 * QPS_EQUAL} queue pairs share the port equally, Jain's "
              f"index {index:.3f} (aim {AIM_JAIN})", indices)
    tap.check(within(half, equal_bounds), f"pace_share: two jobs of equal weight, {half:.2f} to 1 "
              f"(aim {AIM_EQUAL[0]} to {AIM_EQUAL[1]})", halves)
    tap.check(within(ratio, ratio_bounds), f"pace_share: two jobs of weights 3 and 1, "
              f"{ratio:.2f} to 1 (aim {AIM_RATIO[0]} to {AIM_RATIO[1]})", ratios)
    # Without pacing gold is a DSCP that no queue here looks at: what is above is ours.
    apart = statistics.median(ratio_of(plain) for _, _, plain in runs)
    tap.check(apart < ratio, f"pace_share: without pacing the same jobs share it {apart:.2f} to 1")


def test_pace_share(tap, folder):
    """Pacing: two jobs share a port equally, and 3 to 1; beside it without pacing."""
    begun = time.monotonic()
    with world.hosts(limit=LIMIT_BYTES):
        world.query("a", "pace", "setup-fq", "a0")
        world.query("a", "pace", "on")
        now = world.wait_paced()
        tap.note(f"paced after {time.monotonic() - begun:.0f} s")
        if tap.check(now["clock"]["usable"] and now["interfaces"][0]["paced"],
                     "pace_share: the interface is paced", now):
            judge(tap, [one_run(tap) for _ in range(RUNS)])
