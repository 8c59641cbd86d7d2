# SPDX-License-Identifier: BSD-2-Clause
"""Quality of service: how two jobs of soft-RoCE queue pairs share the slow port of `pace`."""
import json
import statistics
import time

from emulation import perftest

from . import paceworld as world

MESSAGE_BYTES = 65536
QPS_EQUAL, QPS_WEIGHTED = 4, 2  # of each of the two jobs
GOLD_TCLASS = 104  # DSCP 26: the class `gold`
# As tests/sim/pause_bench has them (`shares`): with less the late stamps of such a machine decide.
THRESHOLD, LIMIT_BYTES = "40ms", 400000
WARM_SECONDS, SHARE_SECONDS, SPARE_SECONDS = 22, 14, 6
PLAIN_WARM_SECONDS = 6
PORTS = (19110, 19111)
PSN_SPACE = 1 << 24
# The aims, for the median of several runs, and what a single one on a busy machine has to reach.
AIM_RATIO, AIM_JAIN = (2.7, 3.3), 0.98
ONE_RATIO, ONE_JAIN = (2.3, 3.7), 0.95
RUNS = 1


def jain(values):
    """Jain's index: 1 when all have the same, 1/n when one has all."""
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values) or 1)


def tool(device, number, qps, seconds):
    return (f"nice -n 19 stdbuf -oL ib_write_bw -d {device} -x 1 -p {PORTS[number]} -F -q {qps} "
            f"-s {MESSAGE_BYTES} -m {world.MTU} -u 18 -t 16 -D {seconds} -f {seconds // 3}")


def start_jobs(qps, seconds):
    """Two ib_write_bw at once, each with so many queue pairs and for so long; the first is gold."""
    clients = ""
    for number, port in enumerate(PORTS):
        name = f"{world.FOLDER}/job{number}"
        tclass = f"--tclass={GOLD_TCLASS}" if number == 0 else ""
        world.must(f"rm -f {name}.*; setsid {tool('rxb', number, qps, seconds)} "
                  f">{name}.server 2>&1 </dev/null & until grep -q ':{port:04X} ' /proc/net/tcp /proc/net/tcp6; "
                  "do sleep 0.1; done")
        clients += (f"setsid {tool('rxa', number, qps, seconds)} {tclass} 127.0.0.1 "
                    f">{name}.client 2>&1 </dev/null & ")
    world.must(clients + "sleep 0.1")


def job_qpns(number):
    return [int(qpn, 16) for side, qpn in
            perftest.QPN.findall(world.must(f"cat {world.FOLDER}/job{number}.client"))
            if side == "local"]


def next_psns():
    """{QPN of a sender: PSN that it sends next}, as soft-RoCE itself has it."""
    found = json.loads(world.must("rdma -j res show qp link rxa/1"))
    return {row["lqpn"]: row["sq-psn"] for row in found if row.get("type") == "RC"}


def wait_running(qps):
    """The QPNs of both jobs, when all of their queue pairs send."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        qpns, now = [job_qpns(0), job_qpns(1)], next_psns()
        if all(len(job) == qps and all(qpn in now for qpn in job) for job in qpns):
            return qpns
        time.sleep(0.5)
    raise TimeoutError(world.must(f"tail -n 5 {world.FOLDER}/job*"))


def progress(before, after):
    """Packets that a queue pair went on by; going back takes some away again."""
    half = PSN_SPACE // 2
    return {qpn: (after[qpn] - before[qpn] + half) % PSN_SPACE - half
            for qpn in before if qpn in after}


def own_figures():
    """MiB/s of each job as ib_write_bw itself says."""
    deadline, rows = time.monotonic() + 60, []
    while time.monotonic() < deadline:
        rows = [perftest.RESULT_ROW.search(world.must(f"cat {world.FOLDER}/job{number}.client"))
                for number in range(len(PORTS))]
        if all(rows):
            return [float(row.group(4)) for row in rows]
        time.sleep(0.5)
    raise TimeoutError(world.must(f"tail -n 5 {world.FOLDER}/job*"))


def share(tap, label, qps, warm):
    """What each queue pair of both jobs gets in a while: [[packets], [packets]]."""
    start_jobs(qps, warm + SHARE_SECONDS + SPARE_SECONDS)
    qpns = wait_running(qps)
    time.sleep(warm)
    before, drops, begun = next_psns(), world.counts()[0], time.monotonic()
    time.sleep(SHARE_SECONDS)
    moved, drops = progress(before, next_psns()), world.counts()[0] - drops
    took = time.monotonic() - begun
    floors = [flow.get("floor_ns") for flow in world.asked("a", "pace")["qps"]]
    figures = own_figures()
    jobs = [[max(moved[qpn], 0) for qpn in job] for job in qpns]
    total = sum(map(sum, jobs))
    tap.note(f"{label}: packets of each queue pair {jobs}, {total / took:.0f} packets/s, {drops} "
             f"dropped; ib_write_bw itself: {figures[0]:.2f} and {figures[1]:.2f} MiB/s")
    tap.note(f"{label}: {sum(jobs[0]) / max(sum(jobs[1]), 1):.2f} to 1, Jain's index "
             f"{jain(sum(jobs, [])):.3f}; floors {floors} ns")
    return jobs


def set_gold(weight):
    for name, weights in (("gold", ["--weight", str(weight)]), ("default", [])):
        world.asked("a", "pace", "set", "--class", name, "--threshold", THRESHOLD, *weights)


def set_port(limit):
    world.must(f"ip netns exec pacenet tc qdisc replace dev b1 root tbf rate {world.RATE} "
              f"burst 9200 limit {limit}")


def within(value, bounds):
    return bounds[0] <= value <= bounds[1]


def check_share(tap):
    """Weights 1 and 1, and 3 and 1, of two jobs that begin together."""
    ratios, indices = [], []
    set_port(LIMIT_BYTES)
    for _ in range(RUNS):
        set_gold(1)
        indices.append(jain(sum(share(tap, "equal", QPS_EQUAL, WARM_SECONDS), [])))
        set_gold(3)
        gold, other = share(tap, "weights 3 and 1", QPS_WEIGHTED, WARM_SECONDS)
        ratios.append(sum(gold) / max(sum(other), 1))
    ratio, index = statistics.median(ratios), statistics.median(indices)
    bounds, least = (AIM_RATIO, AIM_JAIN) if RUNS > 1 else (ONE_RATIO, ONE_JAIN)
    tap.check(index >= least, f"pace_share: {2 * QPS_EQUAL} queue pairs of two jobs share the port "
              f"equally, Jain's index {index:.3f} (aim {AIM_JAIN})", indices)
    set_port(world.LIMIT_BYTES)
    tap.check(within(ratio, bounds), f"pace_share: two jobs of weights 3 and 1 share it {ratio:.2f} to 1 "
              f"(aim {AIM_RATIO[0]} to {AIM_RATIO[1]})", ratios)


def check_plain_share(tap):
    """The same two jobs without pacing, for the figures beside it."""
    set_port(LIMIT_BYTES)
    gold, other = share(tap, "without pacing", QPS_EQUAL, PLAIN_WARM_SECONDS)
    tap.check(sum(gold) + sum(other) > 0, "pace_share: without it they run as well", (gold, other))


def test_pace_share(tap, folder):
    """Pacing: two jobs share a port equally, and 3 to 1; beside it without pacing."""
    try:
        world.set_up()
        world.asked("a", "pace", "setup-fq", "a0")
        world.asked("a", "pace", "on")
        now = world.wait_paced()
        if tap.check(now["clock"]["good"] and now["interfaces"][0]["paced"],
                     "pace_share: the interface is paced", now):
            check_share(tap)
            world.asked("a", "pace", "off")
            check_plain_share(tap)
    finally:
        world.shell(world.TEAR_DOWN.format(folder=world.FOLDER))
