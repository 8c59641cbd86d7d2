# SPDX-License-Identifier: BSD-2-Clause
"""Pacing under real queue pairs, fq and a shallow queue, all in one machine (paceworld)."""
import json
import time

import events
import labtest
from emulation import perftest

from .paceworld import FOLDER, MTU, query, counts, escapement, hosts, must, shell, wait_paced

QPS, MESSAGES, MESSAGE_BYTES = 4, 15, 65536
PACKETS = QPS * MESSAGES * MESSAGE_BYTES // MTU
RUN_SECONDS = 150
QPS_MAX = 16384  # `qps.max` by default
STOPPED_SECONDS = 2.5  # after which a daemon that is stopped holds nothing


def tool(device, port, messages, target=""):
    return (f"nice -n 19 ib_write_bw -d {device} -x 1 -p {port} -F -q {QPS} -s {MESSAGE_BYTES} "
            f"-n {messages} -m {MTU} -u 18 -t 16 {target}")


def traffic(port, messages=MESSAGES):
    """ib_write_bw from a to b: its result; packets dropped, retransmitted; seconds; its own MiB/s."""
    before, begun = counts(), time.monotonic()
    result = shell(f"{tool('rxb', port, messages)} >{FOLDER}/server 2>&1 & "
                   f"until grep -q ':{port:04X} ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
                   f"{tool('rxa', port, messages, '127.0.0.1')}", RUN_SECONDS)
    took = time.monotonic() - begun
    time.sleep(1)
    after = counts()
    row = perftest.RESULT_ROW.search(result.out)
    return (result, after[0] - before[0], after[1] - before[1] - PACKETS, took,
            row.group(4) if row else "no")


def entries():
    return [entry["formatted"] for entry in json.loads(must("bpftool -j map dump pinned /sys/fs/bpf/pace-a/qp_pace"))]


def held():
    """(packets held, packets of paced queue pairs) so far, from the pinned map."""
    values = [entry["value"] for entry in entries()]
    return sum(value["held"] for value in values), sum(value["packets"] for value in values)


def held_each():
    """Packets held of each queue pair. One that is idle for a minute has no entry any more."""
    return {json.dumps(entry["key"]): entry["value"]["held"] for entry in entries()}


def check_offer(tap):
    refused = escapement("a", "pace", "on")
    tap.check(refused.rc == 1 and "noqueue" in refused.err and "setup-fq a0" in refused.err,
              "pace: without fq the error names the qdisc and the command for fq", refused.err)
    query("a", "pace", "setup-fq", "a0")
    shown = must("tc qdisc show dev a0")
    tap.check("qdisc fq e5c0: root" in shown, "pace: setup-fq makes it the root qdisc", shown)


def check_paced(tap):
    """The figures of a run that is paced, None when it could not be."""
    query("a", "pace", "on")
    now = wait_paced()
    if not tap.check(now["clock"]["usable"] and now["interfaces"][0]["paced"],
                     "pace: the interface is paced, with fabric time good enough", now):
        return None
    before = held()[0]
    result, *figures = traffic(19101)
    after = held()[0]
    tap.check(result.rc == 0 and after > before,
              f"pace: ib_write_bw ran to its end, {after - before} packets were held",
              result.out + result.err)
    return figures


def check_plain(tap, paced):
    """The same without: last, since its standing queue is hard on the clocks."""
    query("a", "pace", "off")
    plain, drops, *figures = traffic(19102)
    line = "{}: {} dropped, {} retransmitted, {:.1f} s, {} MiB/s by ib_write_bw's own figure"
    tap.note(line.format("paced", *paced))
    tap.note(line.format("without", drops, *figures) + f"; of {PACKETS} packets")
    tap.check(plain.rc == 0, "pace: ib_write_bw ran to its end without it", plain.out + plain.err)
    # A machine too slow to fill the queue drops nothing: then pacing must not either.
    tap.check(2 * paced[0] < max(drops, 1), f"pace: with it {paced[0]} are dropped, less than half of {drops}, or none")


def check_stopped(tap):
    """A daemon that is stopped: what leaves 2 s later is not held."""
    must(f"{tool('rxb', 19103, 400)} >{FOLDER}/server 2>&1 & sleep 1; "
         f"until grep -q ':{19103:04X} ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
         f"setsid {tool('rxa', 19103, 400, '127.0.0.1')} >{FOLDER}/client 2>&1 </dev/null &")
    deadline, before = time.monotonic() + 30, held()
    while held()[0] == before[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    tap.check(held()[0] > before[0], "pace: packets are held while the daemon runs", before)
    must(f"kill -STOP $(cat {FOLDER}/a.pid)")
    time.sleep(STOPPED_SECONDS)
    first, wire = held(), counts()[1]
    time.sleep(2)
    last, wire = held(), counts()[1] - wire
    tap.check(last == first and wire > 0, f"pace: stopped for 2 s, it holds none of {wire} packets",
              (first, last))
    must(f"kill -CONT $(cat {FOLDER}/a.pid); kill $(pidof ib_write_bw); while pidof ib_write_bw; do sleep 0.2; done")


def unable(word):
    """The reason why a0 is not paced, once there is one with @word in it."""
    def reason():
        port = query("a", "pace")["interfaces"][0]
        return not port["paced"] and word in port.get("reason", "") and port["reason"]
    return labtest.wait_for(reason, 15)


def reported(word):
    """Events of an interface that cannot be paced, with @word in the reason. `pace` would read the qdisc itself."""
    return [event for event in events.parse(escapement("a", "events").out, "pace_unavailable")
            if word in event["seen"]["reason"]]


def check_foreign(tap):
    """An operator's fq that cannot hold what pacing delays takes the place of ours while pacing is on."""
    begun = time.monotonic()
    must("tc qdisc replace dev a0 root handle 7: fq limit 100 flow_limit 10 horizon 20ms")
    found = labtest.wait_for(lambda: reported("flow_limit 10 "), 15)
    took = time.monotonic() - begun
    tap.check(found and took < 5, f"pace: an fq that is too small ends pacing after {took:.1f} s, with an event", found)
    reason = unable("flow_limit 10 ")
    tap.check(reason and "tc qdisc replace dev a0" in reason, "pace: the reason names its limits and the remedy",
              query("a", "pace")["interfaces"])
    before = held_each()
    result = traffic(19104)[0]
    more = {key: count for key, count in held_each().items() if count > before.get(key, 0)}
    shown = json.loads(must("tc -s -j qdisc show dev a0"))
    dropped = [row.get(name, 0) for row in shown if row["kind"] == "fq"
               for name in ("drops", "flows_plimit", "horizon_drops")]
    tap.check(result.rc == 0 and not more and dropped and not sum(dropped),
              "pace: nothing is held, and that fq drops nothing", (shown, result.err, before, more))
    refused = escapement("a", "pace", "setup-fq", "a0")
    tap.check("qdisc fq 7: " in must("tc qdisc show dev a0"), "pace: setup-fq leaves it as it is", refused)
    must("tc qdisc change dev a0 root handle 7: fq limit 20000 flow_limit 2000 horizon 20ms")
    tap.check(unable("horizon of 20000 us")[0], "pace: nor is one used with a horizon below hold_max",
              query("a", "pace")["interfaces"])
    must("tc qdisc change dev a0 root handle 7: fq horizon 10s")
    good = labtest.wait_for(lambda: query("a", "pace")["interfaces"][0]["paced"], 15)
    tap.check(good, "pace: raised, it is used", query("a", "pace")["interfaces"])
    must("tc qdisc del dev a0 root")
    query("a", "pace", "setup-fq", "a0")
    must("tc qdisc change dev a0 root handle e5c0: fq limit 100")
    reason = unable("setup-fq a0")[0]
    query("a", "pace", "setup-fq", "a0")
    shown = json.loads(must("tc -j qdisc show dev a0"))[0]["options"]
    tap.check(reason and shown["limit"] == QPS_MAX * 64 and query("a", "pace")["interfaces"][0]["paced"],
              "pace: fq of setup-fq has room for every queue pair, and setup-fq raises its limits again", (reason, shown))


def test_pace(tap, folder):
    """Pacing: fq on request and of others, a shallow queue that does not drop, a stopped daemon, fq undone."""
    with hosts():
        check_offer(tap)
        paced = check_paced(tap)
        if paced:
            check_stopped(tap)
            check_foreign(tap)
            check_plain(tap, paced)
        shell(f"escapement --socket {FOLDER}/a.sock off")
        shown = must("tc qdisc show dev a0")
        tap.check(" fq " not in shown and "noqueue" in shown,
                  "pace: `off` leaves the qdisc that was there", shown)
