# SPDX-License-Identifier: BSD-2-Clause
"""libescapement-verbs in perftest: what it counts is what perftest did, and what the kernel programs counted. And in
third-party programs, beside NVMe over Fabrics."""
import concurrent.futures
import contextlib
import functools
import random
import re
import shutil
import statistics
import time

import labtest
import pairs
from emulation import channel, daemon, perftest

from . import bench, cleanup, clients, owd

LIBRARY = "/run/escapement-bin/libescapement-verbs.so"
UNDER = ("env", f"LD_PRELOAD={LIBRARY}")
BYTES, MESSAGES = 16384, 40
LOAD = ("-s", str(BYTES), "-n", str(MESSAGES))
# kind of operation: tool, whose counts have what was posted
RUNS = {"send": "ib_send_bw", "write": "ib_write_bw", "read": "ib_read_bw"}
QPS = (1, 8)
PATIENCE = 20
FOLDER = "/run/escapement/verbs"
RATE_LOAD = ("-s", "64", "-n", "5000")
RATE_PAIRS, RATE_LEAST = 20, 0.99
CLIENT_SECONDS, FIO_SECONDS = 8, 30
# One message of one packet each way at a time: bytes, messages, minimum, maximum, typical, average, ... in us. So many that
# the mean of those that are timed, one in 25 to 45, is known to a few percent.
PINGS = ("-s", "1024", "-n", "6000", "-u", "17")
LATENCY_ROW = re.compile(r"^\s*1024\s+\d+" + r"\s+([\d.]+)" * 7 + r"\s*$", re.MULTILINE)
SAMPLES_LEAST, LATENCY_SHARE = 100, 0.1


def rows(name, qpns):
    """The tx rows of `qp` with these numbers of local queue pairs that have counts of the process."""
    return [qp for qp in bench.escapement(name, "qp")["qps"]
            if qp["direction"] == "tx" and "verbs" in qp and qp["dest_qpn"] in qpns]


def wait_rows(name, qpns):
    deadline = time.monotonic() + PATIENCE
    while len(found := rows(name, qpns)) < len(qpns) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def drive(tool, qps, under=UNDER, extra=()):
    return perftest.run(bench.CLIENT, bench.SERVER, tool, qps=qps, extra=LOAD + extra, under=under)


def check_run(tap, kind, qps, extra=()):
    label = f"verbs: ib_{kind}_bw, {qps} queue pairs{' ' + ' '.join(extra) if extra else ''}"
    result = drive(RUNS[kind], qps, extra=extra)
    done = result["summary"]
    if not tap.check(result["good"] and done.get("messages") == qps * MESSAGES, f"{label}: perftest is not affected",
                     result["client_output"] + result["server_output"]):
        return
    wanted = [{"messages": MESSAGES, "bytes": MESSAGES * BYTES}] * qps
    client = wait_rows(bench.CLIENT, done["server_qpns"])
    tap.equal([row["verbs"].get(kind) for row in client], wanted, f"{label}: messages and bytes posted = perftest's")
    # The first one of a READ or a WRITE is not the process's own: it has no message of perftest's in packets.
    if kind != "read":
        tap.equal([row["messages"] for row in client], [row["verbs"][kind]["messages"] for row in client],
                  f"{label}: the kernel programs counted as many")
    if kind == "send":
        server = wait_rows(bench.SERVER, done["client_qpns"])
        tap.equal([row["verbs"]["received"] for row in server], wanted, f"{label}: messages and bytes received")
    errors = [row["verbs"]["errors"] for row in client if row["verbs"]["errors"]]
    tap.check(not errors, f"{label}: no completion with an error", errors)
    tap.check(all(row["verbs"]["state"] == "RTS" and row["verbs"]["path_mtu"] == 1024 and
                  row["verbs"].get("completion_ns", {}).get("samples") for row in client),
              f"{label}: attributes, and latencies of completions", client[:1])


def test_verbs(tap, _folder):
    """Messages and bytes of perftest by libescapement-verbs, exactly; and nothing where it is off or alone."""
    cleanup.make_ready()
    for kind in RUNS:
        for qps in QPS:
            check_run(tap, kind, qps)
    check_run(tap, "send", 4, ("--use_old_post_send",))
    off = drive("ib_write_bw", 2, ("env", "ESCAPEMENT_VERBS=off", f"LD_PRELOAD={LIBRARY}"))
    tap.check(off["good"], "verbs: off by the environment, perftest is not affected", off["client_output"])
    tap.equal(rows(bench.CLIENT, off["summary"]["server_qpns"]), [], "verbs: and nothing is counted")
    cleanup.make_absent()
    alone = drive("ib_write_bw", 2)
    tap.check(alone["good"], "verbs: without a daemon perftest is not affected", alone["client_output"])
    channel.read(bench.CLIENT, ["sh", "-c", "rm -rf /run/escapement/verbs"])
    alone = drive("ib_send_bw", 2)
    tap.check(alone["good"], "verbs: nor without its folder", alone["client_output"])


# --- the message rate with it and without ---

def rate_of(under):
    result = perftest.run(bench.CLIENT, bench.SERVER, "ib_send_bw", qps=1, extra=RATE_LOAD, under=under)
    if "messages_per_second" not in result["summary"]:
        raise RuntimeError(result["client_output"] + result["server_output"])
    counted = bench.each(lambda name: channel.read(name, ["sh", "-c", f"ls {FOLDER} | wc -l; rm -f {FOLDER}/*"]))
    if any(int(files) != bool(under) for files in counted):
        raise RuntimeError(f"{under}: files of the library: {counted}")
    return result["summary"]["messages_per_second"]


def test_verbs_rate(tap, _folder):
    """The message rate of ib_send_bw with libescapement-verbs at both ends, against that without: pairs of slices of one run."""
    cleanup.make_absent()
    daemon.install(bench.GUESTS)
    bench.each(lambda name: channel.read(name, ["mkdir", "-p", FOLDER]))  # all that it needs; a daemon takes minutes to start
    letters = pairs.order(random.Random(), RATE_PAIRS)
    rates = [rate_of(UNDER if letter == "B" else ()) for letter in letters]
    both = pairs.split(letters, rates)
    ratios = [without / under for without, under in both]
    low, high = (1 / value if value else float("inf") for value in pairs.interval(ratios)[::-1])
    tap.note(f"verbs_rate: {len(both)} pairs, without it the median of {statistics.median(one for one, _ in both):.0f} messages/s; "
             f"with it {1 / statistics.median(ratios):.4f} of that, 99% interval {low:.4f} to {high:.4f}")
    tap.check(pairs.is_good(ratios, 1 / RATE_LEAST, 1 / RATE_LEAST), f"verbs_rate: with it at least {RATE_LEAST} of the message rate",
              [round(1 / ratio, 3) for ratio in sorted(ratios)])


# --- delays of messages ---

def timed(name):
    """The row of a guest's queue pair whose messages were timed by both processes, and packets by receipts; {} if none is."""
    found = [row for row in bench.escapement(name, "qp")["qps"]
             if row["direction"] == "tx" and "owd_lifetime_ns" in row and "message_delay_ns" in row.get("verbs", {})]
    return found[-1] if found else {}


def test_verbs_delays(tap, _folder):
    """Delays of messages by both processes: not below their packets' by receipts, and both ways as perftest itself has them."""
    cleanup.make_fresh(**owd.configuration())
    owd.wait_synced()
    result = perftest.run(bench.CLIENT, bench.SERVER, "ib_send_lat", qps=1, extra=PINGS, under=UNDER, nice=owd.NICE)
    row = LATENCY_ROW.search(result["client_output"])
    if not tap.check(result["good"] and row, "verbs_delays: perftest is not affected", result["client_output"] + result["server_output"]):
        return
    labtest.wait_for(lambda: all(bench.each(timed)), PATIENCE)
    seen = bench.each(timed)
    if not tap.check(all(seen), "verbs_delays: messages and packets are timed both ways", bench.escapement(bench.CLIENT, "qp")):
        return
    messages, packets = ([one["verbs"]["message_delay_ns"] for one in seen], [one["owd_lifetime_ns"] for one in seen])
    for name, message, packet in zip(bench.GUESTS, messages, packets):
        tap.note(f"verbs_delays: what {name} sent: messages {message}, packets {packet}")
        tap.check(message["samples"] >= SAMPLES_LEAST and "note" not in message, f"verbs_delays: {name}: enough samples", message)
        bound = message["bound"] + packet["bound"]
        tap.check(all(message[stat] >= packet[stat] - bound for stat in ("p50", "p99")),
                  f"verbs_delays: {name}: no message is faster than its packet", (message, packet))
    # Not medians: the delays are skewed, so that the sum of two medians is below the median of the sums, by a quarter in guests.
    perftest_ns = 2e3 * float(row.group(4))
    both_ns = sum(message["mean"] for message in messages)
    tap.note(f"verbs_delays: there and back {both_ns / 1e3:.1f} us of messages, perftest {perftest_ns / 1e3:.1f} us")
    tap.check(abs(both_ns - perftest_ns) <= LATENCY_SHARE * perftest_ns,
              f"verbs_delays: there and back the means are perftest's mean round trip to within {LATENCY_SHARE:.0%}",
              (both_ns, perftest_ns))


# --- third-party programs ---

def counted(name):
    """{(local number, remote number): row} of the RC queue pairs that both the process and the kernel programs count."""
    return {(row["verbs"]["local_qpn"], row["dest_qpn"]): row for row in bench.escapement(name, "qp")["qps"]
            if row["direction"] == "tx" and "verbs" in row and row["transport"] == "RC" and "psn_gaps" in row}


def sums_of(row, peer):
    """[messages, bytes] by the process of one end: what it posted, and the READs of the other end's, which it answers."""
    kinds = [row["verbs"].get(kind, {}) for kind in ("send", "write", "write_imm")] + [peer["verbs"].get("read", {})]
    return [sum(kind.get(what, 0) for kind in kinds) for what in ("messages", "bytes")]


def agrees(row, peer):
    """The kernel programs counted the same; to them, but not to the process, a packet that is sent again has its bytes again."""
    messages, size = sums_of(row, peer)
    return row["messages"] == messages and 0 <= row["payload_bytes"] - size <= row["retransmits"] * row["verbs"]["path_mtu"]


def check_client(tap, label, run):
    before = bench.each(counted)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        fio = pool.submit(clients.run_fio, FIO_SECONDS)
        seen = run(CLIENT_SECONDS)
        disk = fio.result()
    tap.check(seen["good"], f"{label}: it is not affected", seen["output"])
    tap.check(disk["good"], f"{label}: nor is NVMe over Fabrics beside it", disk["output"])
    time.sleep(2)  # the daemon reads processes once a second
    here, there = ({key: row for key, row in now.items() if key not in old}
                   for old, now in zip(before, bench.each(counted)))
    pairs = [(row, there[key[::-1]]) for key, row in here.items() if key[::-1] in there]
    tap.check(pairs and len(pairs) == len(here) == len(there), f"{label}: queue pairs with both ends, {len(pairs)}",
              (here, there))
    wrong = [(end, sums_of(end, other)) for pair in pairs for end, other in (pair, pair[::-1]) if not agrees(end, other)]
    messages, size = map(sum, zip(*(sums_of(end, other) for pair in pairs for end, other in (pair, pair[::-1])))) \
        if pairs else (0, 0)
    tap.check(messages and not wrong, f"{label}: {messages} messages, {size} bytes: the kernel programs counted as many", wrong)


def test_verbs_clients(tap, _folder):
    """rping, ucx_perftest and Open MPI over UCX with libescapement-verbs, beside NVMe over Fabrics: exact counts."""
    missing = [tool for tool in clients.NEEDED if not shutil.which(tool)]
    if not tap.check(not missing, "the programs are here", f"{missing}: tests/deps long"):
        return
    cleanup.make_ready()
    preload = f"LD_PRELOAD={LIBRARY}"
    shared, own = clients.MPI_UCX
    programs = {"rping": (functools.partial(clients.run_rping, under=preload), contextlib.nullcontext),
                "ucx_perftest": (functools.partial(clients.run_ucx, under=preload), contextlib.nullcontext),
                clients.MPI_OVER_UCX: (functools.partial(clients.run_mpi, (
                    shared, lambda name: f"-x {preload} {own(name)}")), clients.mpi_shell)}
    with clients.nvme_disk():
        for label, (run, context) in programs.items():
            with context():
                check_client(tap, f"verbs: {label}", run)
