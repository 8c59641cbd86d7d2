# SPDX-License-Identifier: BSD-2-Clause
"""Background load between hosts."""


def add_verb(verbs, rate, count):
    del verbs, rate, count
