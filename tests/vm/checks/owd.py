# SPDX-License-Identifier: BSD-2-Clause
"""One-way delays of real queue pairs between two machines whose clocks really differ."""
import time

from emulation import channel, perftest, state

from . import bench, cleanup
from .bench import CLIENT, SERVER

KEY = bytes(range(16))
STEP_MS, STEP_SHARE = 40, 0.05
SYNC_TIMEOUT_S = 120
# One packet each way at a time; perftest polls, and leaves little of an emulated CPU to others.
PINGS, SLOW_PINGS, PING_BYTES = 600, 60, 1024
NICE = 19
LOSSY = ("-s", "65536", "-n", "24", "-u", "17")
LOSS_QPS, LOSS_PACKETS, LOSS_PERCENT = 2, 2 * 24 * 64, 1
RETRANSMIT_NS = 537e6  # 4.096 us * 2^17: earlier nothing is retransmitted without a NAK


def members(names=bench.GUESTS):
    return [{"targets": [state.guest(name)["address"]],
             "labels": {"host": name, "addresses": state.guest(name)["address6"]}}
            for name in names]


def configuration():
    """A mesh. Every packet is timed: an emulated machine sends few, and the pings are one at a time. It has no
    time for 500 pairs of probes a second besides."""
    return {"top": "receipts: { sample: 1/1 }\nmesh: { pair_interval: 20ms }\nclock: { window: 10s }\n",
            "members": members(), "key": KEY}


def clocks():
    return {name: bench.escapement(name, "clock") for name in bench.GUESTS}


def wait_synced():
    """Waits until both clocks are synced; their newest state."""
    deadline = time.monotonic() + SYNC_TIMEOUT_S
    while True:
        now = clocks()
        if {clock["state"] for clock in now.values()} == {"synced"} or time.monotonic() > deadline:
            return now
        time.sleep(0.5)


def ping(count):
    """{guest: the delays of what it sent to the other}, of a queue pair of its own."""
    before = {name: bench.queue_pairs(name) for name in bench.GUESTS}
    result = perftest.run(CLIENT, SERVER, "ib_send_lat", gid="v4", nice=NICE,
                          extra=("-s", str(PING_BYTES), "-n", str(count)))
    if not result["good"]:
        raise RuntimeError(result["client_output"] + result["server_output"])
    return {name: delays(name, before[name]) for name in bench.GUESTS}


def delays(name, before):
    """`owd_lifetime_ns` of the queue pairs that a guest has sent on since @before, by what they sent."""
    found = [row for key, row in bench.queue_pairs(name).items() if key[0] == "tx" and
             row["packets"] > before.get(key, {}).get("packets", 0) and row.get("samples_sent")]
    return max(found, key=lambda row: row["samples_sent"], default={})


def slow_down(ms):
    """Behind tc egress: RC's packets wait, probes and receipts do not, or the clocks would have
    no means to separate the delay from an offset."""
    lines = ["qdisc add dev eth0 root handle 1: prio bands 2 priomap" + " 0" * 16,
             f"qdisc add dev eth0 parent 1:2 handle 2: netem limit 20000 delay {ms}ms",
             "filter add dev eth0 parent 1: protocol ip u32 match u8 0 0xe0 at 28 flowid 1:2"]
    channel.read(CLIENT, ["sh", "-c", " && ".join("tc " + line for line in lines)])


def speed_up():
    channel.run(CLIENT, ["tc", "qdisc", "del", "dev", "eth0", "root"])


def check_floor(tap, seen):
    """What the clocks are wrong by adds to one direction what it takes from the other."""
    peer = bench.escapement(CLIENT, "peers")["peers"][0]
    there, back = (seen[name]["owd_lifetime_ns"] for name in bench.GUESTS)
    both, trip = there["min"] + back["min"], peer["rtt_ns"]["min"]
    bound = there["bound"] + back["bound"]
    tap.note(f"floor {there['min']} ns there, {back['min']} ns back; round trip of probes "
             f"{peer['rtt_ns']}; bounds {there['bound']} and {back['bound']} ns")
    # A probe is answered in XDP, a packet of rxe's is made by a whole stack; the probes'
    # median has all that an emulated machine may add to a floor.
    margin = max(trip, peer["rtt_ns"]["p50"] - trip)
    tap.check(abs(both - trip) <= bound + margin,
              "owd: the floors both ways are a round trip", f"{both} and {trip} ns, {margin} ns margin")
    for name, span in ((CLIENT, there), (SERVER, back)):
        tap.check(-bound <= span["min"] <= trip + bound + margin,
                  f"owd: what {name} sends takes no negative time", span)


def check_step(tap, before):
    """By the floor: netem in a machine that is busy is late for most packets, and early for none."""
    slow_down(STEP_MS)
    try:
        after = ping(SLOW_PINGS)
    finally:
        speed_up()
    step, middle = ({name: after[name]["owd_lifetime_ns"][stat] - before[name]["owd_lifetime_ns"][stat]
                     for name in bench.GUESTS} for stat in ("min", "p50"))
    tap.note(f"a step of {STEP_MS} ms at {CLIENT}: floors grew by {step} ns, medians by {middle} ns")
    wanted, allowed = STEP_MS * 1e6, STEP_MS * 1e6 * STEP_SHARE
    tap.check(abs(step[CLIENT] - wanted) <= allowed,
              f"owd: {STEP_MS} ms more are seen to within {STEP_SHARE:.0%}",
              f"{step[CLIENT] / 1e6:.2f} ms")
    tap.check(middle[CLIENT] >= wanted - allowed, "owd: and by no less in the middle",
              f"{middle[CLIENT] / 1e6:.2f} ms")
    tap.check(abs(step[SERVER]) <= allowed, "owd: and not in the other direction",
              f"{step[SERVER] / 1e6:.2f} ms")


def check_loss(tap):
    rxe = bench.wait_still()
    before = {name: bench.queue_pairs(name) for name in bench.GUESTS}
    channel.read(CLIENT, ["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "limit", "20000",
                          "loss", f"{LOSS_PERCENT}%"])
    try:
        result = perftest.run(CLIENT, SERVER, "ib_write_bw", qps=LOSS_QPS, gid="v4", extra=LOSSY)
        after_rxe = bench.wait_still()
    finally:
        speed_up()
    tap.check(result["good"], "owd: ib_write_bw ran to its end with losses",
              result["client_output"] + result["server_output"])
    after = {name: bench.queue_pairs(name) for name in bench.GUESTS}
    sent = bench.difference(after[CLIENT], before[CLIENT], "tx")
    got = bench.difference(after[SERVER], before[SERVER], "rx")
    grown = {counter: after_rxe[SERVER][counter] - rxe[SERVER][counter]
             for counter in ("duplicate_request", "out_of_seq_request")}
    tap.check(bench.total(sent, "retransmits") > 0, "owd: packets were lost and retransmitted", sent)
    tap.equal((bench.total(got, "duplicates"), bench.total(after_naks(before, after), "naks")),
              (grown["duplicate_request"], grown["out_of_seq_request"]),
              "owd: duplicates and NAKs are rxe's")
    tap.equal(bench.total(sent, "packets") - bench.total(sent, "retransmits"), LOSS_PACKETS,
              "owd: what was not retransmitted are the messages' packets")
    rows = [row for key, row in after[CLIENT].items() if key[0] == "tx" and
            row["first_local_ns"] != before[CLIENT].get(key, {}).get("first_local_ns") and
            row.get("owd_lifetime_ns")]
    tap.equal(len(rows), LOSS_QPS, "owd: each queue pair has delays all the same")
    if len(rows) != LOSS_QPS:
        tap.note(f"{[row for key, row in after[CLIENT].items() if key[0] == 'tx']}")
    longest = max((row["owd_lifetime_ns"]["max"] for row in rows), default=0)
    counts = [{field: row[field] for field in ("samples_sent", "receipts", "samples_discarded",
                                               "samples_expired", "retransmits")} for row in rows]
    tap.note(f"1% lost: {counts}, longest {longest / 1e6:.2f} ms")
    tap.check(0 < longest < RETRANSMIT_NS, "owd: none is as long as the retransmission timeout",
              longest)
    tap.check(all(row["receipts"] + row["samples_discarded"] + row["samples_expired"] <= row["samples_sent"]
                  for row in rows), "owd: each tx timestamp record is used once", counts)


def after_naks(before, after):
    return bench.difference(after[SERVER], before[SERVER], "tx")


def test_owd(tap, folder):
    """Delays by receipts: floors both ways, a known step, losses; clocks that really differ."""
    cleanup.make_fresh(**configuration())
    now = wait_synced()
    tap.note(f"clocks: {({n: (c['state'], c.get('bound_ns')) for n, c in now.items()})}")
    synced = {clock["state"] for clock in now.values()} == {"synced"}
    tap.check(synced, "owd: both clocks are synced",
              synced or [bench.escapement(name, verb) for name in bench.GUESTS
                         for verb in ("clock", "peers", "status")])
    if not synced:
        return
    apart = now[CLIENT]["local_ns"] - now[SERVER]["local_ns"]
    tap.note(f"their own clocks are {apart / 1e6:.1f} ms apart, by two queries")
    before = ping(PINGS)
    for name in bench.GUESTS:
        if not tap.check(before[name].get("owd_lifetime_ns"),
                         f"owd: {name} has delays of what it sends", before[name]):
            return
    check_floor(tap, before)
    check_step(tap, before)
    check_loss(tap)
