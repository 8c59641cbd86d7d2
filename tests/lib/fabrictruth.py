# SPDX-License-Identifier: BSD-2-Clause
"""The clocks of a lab's hosts held against each other: all hosts run on one kernel, so that one
instant of its CLOCK_MONOTONIC is each host's local time by its known skew, and each host's fabric
time by its model. What two of them differ by there is the true error."""
import time

from labkit import daemons


def local_ns(monotonic_ns, host):
    """As clock_local_ns() has it."""
    drift = host["clock_drift_ppb"]
    moved = monotonic_ns // 10**9 * abs(drift) + monotonic_ns % 10**9 * abs(drift) // 10**9
    return monotonic_ns + host["clock_offset_ns"] + (moved if drift >= 0 else -moved)


def fabric_ns(model, local):
    """Fabric time at a local time: (whole nanoseconds, fraction)."""
    part = ("ref_local_ns", "ref_fabric_ns", "rate_ppb")
    if "slew_local_ns" in model and local >= model["slew_local_ns"]:
        part = ("slew_local_ns", "slew_fabric_ns", "slew_rate_ppb")
    delta = local - model[part[0]]
    return model[part[1]] + delta, delta * model[part[2]] * 1e-9


def bound_ns(model, local):
    age = max(0, local - model["bound_local_ns"])
    growth = model["bound_growth_ppb"] + (model["bound_late_ppb"] if age > 10**9 else 0)
    return model["bound_ns"] + age * growth * 1e-9 + 1


class Fabric:
    """`hosts` as `lab status -j` has them; `root` is the lab's folder."""

    def __init__(self, hosts, root):
        self.hosts = {host["name"]: host for host in hosts}
        self.root = root

    def query(self, host, verb):
        return daemons.query(f"{self.root}/{host}/run/escapement.sock", verb)

    def synced(self, hosts=None):
        """Whether the clock of each host (all, if none is given) is synced."""
        return all(self.query(name, "clock")["state"] == "synced" for name in hosts or self.hosts)

    def clocks(self):
        return {name: self.query(name, "clock") for name in self.hosts}

    def readings(self):
        """{host: (fabric ns, fraction, bound)} of one instant; hosts without time are left out."""
        clocks = self.clocks()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        out = {}
        for name, clock in clocks.items():
            if "model" in clock:
                local = local_ns(now, self.hosts[name])
                whole, fraction = fabric_ns(clock["model"], local)
                out[name] = (whole, fraction, bound_ns(clock["model"], local))
        return out

    def errors(self):
        """[(one, other, true error, both bounds)] of all pairs, now."""
        readings = self.readings()
        names = sorted(readings)
        pairs = []
        for i, one in enumerate(names):
            for other in names[:i]:
                a, b = readings[one], readings[other]
                pairs.append((one, other, abs((a[0] - b[0]) + (a[1] - b[1])), a[2] + b[2]))
        return pairs
