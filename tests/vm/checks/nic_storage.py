# SPDX-License-Identifier: BSD-2-Clause
"""NVMe over Fabrics under fio with data verification while the NIC of one end fails, and returns."""
import concurrent.futures
import shutil
import time

from . import bench, clients, nic
from .bench import CLIENT, SERVER

CASES = (("carrier", (CLIENT,)), ("carrier", (SERVER,)), ("silent", (CLIENT,)), ("silent", (SERVER,)))
FIO_SECONDS, OUTAGE_S, LEAD_S = 14, 3, 4
LONGEST_MS = 500  # a queue pair that ended would take 10 s, one that waited for its timer 537 ms and more
RUNS = 1


def copies_sent(name):
    return bench.escapement(name, "failover")["repair"]["packets"]


def run_failed(fault, names):
    lost, counters, copies = clients.lost_lines(), bench.each(bench.rxe_counters), bench.each(copies_sent)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(clients.run_fio, FIO_SECONDS)
        time.sleep(LEAD_S)
        nic.cut(fault, names)
        time.sleep(OUTAGE_S)
        nic.mend(fault, names)
        seen = running.result()
    seen["lost"] = clients.lost_lines() - lost
    seen["copies"] = [now - then for then, now in zip(copies, bench.each(copies_sent))]
    seen["repairs"] = {f"{name} {counter}": now[counter] - then[counter]
                       for name, then, now in zip(bench.GUESTS, counters, bench.each(bench.rxe_counters))
                       for counter in bench.REPAIRS if now[counter] != then[counter]}
    return seen


def test_nic_storage(tap, folder):
    """NVMe over Fabrics under fio: the NIC of the initiator or the target loses its link, or all packets."""
    missing = [tool for tool in ("fio", "nvme") if not shutil.which(tool)]
    if not tap.check(not missing, "the programs are here", f"{missing}: tests/deps vm"):
        return
    table = {}
    for fault, names in RUNS * CASES:
        what = nic.label_of("nic", fault, names)
        with nic.design_up("nic"), clients.nvme_disk():
            nic.wait_whole()
            seen = run_failed(fault, names)
            said = clients.shell(CLIENT, "dmesg | tail -20").out
        shown = {key: value for key, value in seen.items() if key not in ("good", "output")}
        tap.note(f"{what}: {shown}")
        tap.check(seen["good"], f"{what}: fio ran to its end, its data is right", seen["output"])
        tap.check(not seen["lost"], f"{what}: no queue pair ended", said)
        longest_ms = seen.get("longest_ms", float("inf"))
        tap.check(longest_ms < LONGEST_MS, f"{what}: the longest request took {longest_ms:.0f} ms", shown)
        tap.check(any(seen["copies"]), f"{what}: packets were sent once more", shown)
        table.setdefault(what, []).append((longest_ms, seen["copies"]))
    tap.note("longest request, ms (packets sent once more by A, B):")
    for what, runs in table.items():
        tap.note(f"{what:36}" + ", ".join(f"{ms:5.0f} ({a}, {b})" for ms, (a, b) in runs))
