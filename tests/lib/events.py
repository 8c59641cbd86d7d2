# SPDX-License-Identifier: BSD-2-Clause
"""What a daemon's `escapement -j events` printed."""
import json


def parse(text, *kinds, since_ns=0):
    """The events of these kinds (all, if none is given), from @since_ns (CLOCK_REALTIME) on."""
    found = map(json.loads, text.splitlines())
    return [event for event in found
            if event["time_ns"] >= since_ns and (not kinds or event["kind"] in kinds)]
