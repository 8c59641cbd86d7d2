# SPDX-License-Identifier: BSD-2-Clause
"""Whether one thing is slower than another, by pairs of slices measured one after the other: on a busy machine only the
two of a pair have seen the same load. What is judged is the median of the ratios of the pairs, with a confidence interval
that supposes nothing of their distribution."""
import math
import statistics

WITHIN, BEYOND, UNDECIDED = "within", "beyond", "undecided"
CONFIDENCE = 0.99


def order(draw, pairs):
    """The letters of so many pairs: of two pairs one begins with A and one with B, in random order."""
    return "".join(draw.choice(("ABBA", "BAAB")) for _ in range((pairs + 1) // 2))


def split(letters, values):
    """[(of A, of B)]: the values of an order's slices, by pairs."""
    return [(one, other) if letter == "A" else (other, one)
            for letter, one, other in zip(letters[::2], values[::2], values[1::2])]


def interval(ratios, confidence=CONFIDENCE):
    """(low, high) of the median: a sign test's interval; (0, inf) of too few."""
    ratios, outside, k = sorted(ratios), 0.0, 0
    while k < len(ratios):
        outside += 2 * math.comb(len(ratios), k) / 2**len(ratios)
        if outside > 1 - confidence:
            break
        k += 1
    return (ratios[k - 1], ratios[-k]) if k else (0.0, math.inf)


def verdict(ratios, most):
    """Whether the median is at most @most."""
    low, high = interval(ratios)
    return WITHIN if high <= most else BEYOND if low > most else UNDECIDED


def is_good(ratios, most, estimated_most):
    """Whether the median is not beyond @most; what is undecided counts by its estimate, which may be @estimated_most."""
    return verdict(ratios, most) != BEYOND and statistics.median(ratios) <= estimated_most
