# SPDX-License-Identifier: BSD-2-Clause
"""Collectives over the lab's ECMP in one machine, whose kernel has fq: neither pacing nor steering, one of
them, both (tests/lib/collectives.py)."""
import json
import os
import random

from emulation import channel, state

from . import bench

SCRIPT = os.path.join(state.TOP, "tests", "lib", "collectives.py")
RUN_SECONDS = 1200
PATTERNS, ROUNDS = "ring,to_all,incast,jobs", 8
BAR = 1.05  # a round with both, beside the better one
SEED = None  # drawn


def rows_of(seed):
    """What each run took, as collectives.py prints it."""
    command = (f"LAB_REPLY_SECONDS=120 ESCAPEMENT_BUILD={state.BUILD} exec python3 -B {SCRIPT} "
               f"--seed {seed} --rounds {ROUNDS} --patterns {PATTERNS}")
    result = channel.run(bench.CLIENT, ["sh", "-c", command], RUN_SECONDS)
    lines = [json.loads(line) for line in result.out.splitlines()]
    return result, [line for line in lines if "law" in line], [line for line in lines if "table" in line]


def format_row(row):
    return ("{pattern}, {law}: median {median_ms:.0f} ms ({least_ms:.0f} to {most_ms:.0f}) of "
            "{rounds} rounds, all {took_ms}; {dropped} dropped, {retransmitted} of {packets} sent "
            "again, {timeouts} timeouts, {moves} moves; links need {needs_ms:.0f} ms, placed well "
            "{needs_placed_ms:.0f}; the CPU was idle for {idle:.0%}").format(**row)


def test_pace_collectives(tap, folder):
    """Ring all-reduce, all-to-all, incast, two jobs: how long with pacing, steering, both, and neither."""
    seed = SEED or random.SystemRandom().randrange(1 << 32)
    tap.note(f"seed {seed}")
    result, rows, table = rows_of(seed)
    for row in rows:
        tap.note(format_row(row))
    if not tap.check(result.rc == 0, "pace_collectives: every run comes to its end",
                     result.err[-2000:]):
        return
    tap.check(not any(row["damaged"] for row in rows), "pace_collectives: nothing is damaged")
    for pattern in PATTERNS.split(","):
        judge(tap, pattern, {row["law"]: row for row in rows if row["pattern"] == pattern})
    for row in table:
        tap.check(row["both_part"] <= BAR, f"pace_collectives: {row['table']}: with both, a round takes "
                  f"{row['both_part']:.2f} of the better of pacing and steering", row)


def judge(tap, pattern, by_law):
    none, paced = by_law["none"], by_law["pacing"]
    best = by_law["both"]
    tap.check(not none["moves"] and not paced["moves"],
              f"pace_collectives: {pattern}: without steering nothing moves")
    if none["retransmitted"] < none["packets"] / 100:
        tap.skip(f"pace_collectives: {pattern}: paced, less is retransmitted",
                 "without pacing next to nothing is")
    else:
        tap.check(2 * paced["retransmitted"] < none["retransmitted"],
                  f"pace_collectives: {pattern}: paced, less than half is retransmitted",
                  (paced["retransmitted"], none["retransmitted"]))
    tap.check(best["median_ms"] < none["median_ms"],
              f"pace_collectives: {pattern}: with {best['law']}, a round takes {best['median_ms']:.0f} ms, "
              f"without {none['median_ms']:.0f}")
