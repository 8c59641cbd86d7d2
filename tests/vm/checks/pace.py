# SPDX-License-Identifier: BSD-2-Clause
"""Pacing under real queue pairs, fq and a shallow queue, all in one machine (paceworld)."""
import json
import time

from emulation import perftest

from .paceworld import (FOLDER, MTU, TEAR_DOWN, asked, counts, escapement, must, set_up, shell,
                        wait_paced)

QPS, MESSAGES, MESSAGE_BYTES = 4, 15, 65536
PACKETS = QPS * MESSAGES * MESSAGE_BYTES // MTU
RUN_SECONDS = 150
SILENT_SECONDS = 2.5  # after which a daemon that is stopped holds nothing


def tool(device, port, messages, target=""):
    return (f"nice -n 19 ib_write_bw -d {device} -x 1 -p {port} -F -q {QPS} -s {MESSAGE_BYTES} "
            f"-n {messages} -m {MTU} -u 18 -t 16 {target}")


def traffic(port, messages=MESSAGES):
    """ib_write_bw from a to b: its result; packets dropped, sent again; seconds; its own MiB/s."""
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


def held():
    """(packets held, packets of paced queue pairs) so far, from the pinned map."""
    entries = json.loads(must("bpftool -j map dump pinned /sys/fs/bpf/pace-a/qp_pace"))
    values = [entry["formatted"]["value"] for entry in entries]
    return sum(value["held"] for value in values), sum(value["packets"] for value in values)


def sent():
    return sum(row["packets"] for row in asked("a", "qp")["qps"] if row["direction"] == "tx")


def check_offer(tap):
    refused = escapement("a", "pace", "on")
    tap.check(refused.rc == 1 and "noqueue" in refused.err and "setup-fq a0" in refused.err,
              "pace: without fq the interface says so, and what would do it", refused.err)
    asked("a", "pace", "setup-fq", "a0")
    shown = must("tc qdisc show dev a0")
    tap.check("qdisc fq e5c0: root" in shown, "pace: fq is there when it was asked for", shown)


def check_paced(tap):
    """The figures of a run that is paced, None when it could not be."""
    asked("a", "pace", "on")
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
    asked("a", "pace", "off")
    plain, drops, *figures = traffic(19102)
    words = "{}: {} dropped, {} sent again, {:.1f} s, {} MiB/s by ib_write_bw's own figure"
    tap.note(words.format("paced", *paced))
    tap.note(words.format("without", drops, *figures) + f"; of {PACKETS} packets")
    tap.check(plain.rc == 0, "pace: ib_write_bw ran to its end without it", plain.out + plain.err)
    # A machine too slow to fill the queue drops nothing: then pacing must not either.
    tap.check(2 * paced[0] < max(drops, 1), f"pace: with it {paced[0]} are dropped, less than half of {drops}, or none")


def check_silence(tap):
    """A daemon that is stopped: what leaves 2 s later is not held."""
    must(f"{tool('rxb', 19103, 400)} >{FOLDER}/server 2>&1 & sleep 1; "
         f"until grep -q ':{19103:04X} ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
         f"setsid {tool('rxa', 19103, 400, '127.0.0.1')} >{FOLDER}/client 2>&1 </dev/null &")
    deadline, before = time.monotonic() + 30, held()
    while held()[0] == before[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    tap.check(held()[0] > before[0], "pace: packets are held while the daemon lives", before)
    must(f"kill -STOP $(cat {FOLDER}/a.pid)")
    time.sleep(SILENT_SECONDS)
    first, wire = held(), counts()[1]
    time.sleep(2)
    last, wire = held(), counts()[1] - wire
    tap.check(last == first and wire > 0, f"pace: stopped for 2 s, it holds none of {wire} packets",
              (first, last))
    must(f"kill -CONT $(cat {FOLDER}/a.pid); kill $(pidof ib_write_bw); sleep 3")


def test_pace(tap, folder):
    """Pacing: fq on request, a shallow queue that does not drop, a silent daemon, fq undone."""
    try:
        set_up()
        check_offer(tap)
        paced = check_paced(tap)
        if paced:
            check_silence(tap)
            check_plain(tap, paced)
        shell(f"escapement --socket {FOLDER}/a.sock off")
        shown = must("tc qdisc show dev a0")
        tap.check(" fq " not in shown and "noqueue" in shown,
                  "pace: `off` leaves the qdisc that was there", shown)
    finally:
        shell(TEAR_DOWN.format(folder=FOLDER))
