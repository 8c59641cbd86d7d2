# SPDX-License-Identifier: BSD-2-Clause
"""`escapement audit --fleet --ring` of two guests: a ring of perftest with 1, 2, 4 and 8 queue pairs, and faults of one NIC."""
import json
import os

import labtest
from emulation import channel, machine, state

from . import bench, cleanup, owd
from .bench import CLIENT, SERVER

RING = ("--ring", "2s")
LEAD_NS = 20 * 10**9  # until the slower guest has begun
LOADS = [1, 2, 4, 8]
NIC = "rxe0:1"
PATIENCE = 90
AT_FAULT = SERVER


def in_guest(name, command):
    return channel.read(name, ["sh", "-c", command])


class Fleet:
    """Audits of both guests, merged."""

    def __init__(self, folder):
        self.folder = folder
        self.expected = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def audit(self, *words):
        """({guest: report}, the merged one)"""
        expect = json.dumps({"values": self.expected})
        command = f"echo '{expect}' >/run/expect.json; exec escapement -j audit --expect /run/expect.json {' '.join(words)}"
        if "--fleet" in words:
            command += f" --run {bench.escapement(CLIENT, 'clock')['fabric_ns'] + LEAD_NS}"
        results = dict(zip(bench.GUESTS, machine.each(
            lambda name: channel.run(name, ["sh", "-c", command], 300), bench.GUESTS)))
        reports = {name: json.loads(result.out) if result.out.startswith("{") else result
                   for name, result in results.items()}
        with open(self.path("reports"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(report) + "\n" for report in reports.values())
        shared = os.path.join(state.guest(CLIENT)["share"], "reports")
        os.replace(self.path("reports"), shared)
        merged = channel.run(CLIENT, ["escapement", "-j", "audit", "merge", shared])
        if not merged.out.startswith("{"):
            raise RuntimeError(f"audit merge: exit {merged.rc}: {merged.err}; {reports}")
        return reports, json.loads(merged.out)


def failures(merged):
    return {(entry["host"], entry.get("subject", ""), entry["check"]) for entry in merged["results"]
            if entry["result"] == "fail"}


def value_of(report, check):
    return next(entry.get("value") for entry in report["results"] if entry["check"] == check)


def check_ring(tap, reports):
    for name, report in reports.items():
        rows = report.get("ring", {}).get("rows", [])
        for row in rows:
            owd_ns = row.get("owd_ns", {})
            tap.note(f"{name} -> {row['peer']}, {row['qps']} queue pairs: {row.get('gbps')} Gbit/s, one way idle "
                     f"{row.get('idle_owd_ns')} ns, under load {owd_ns.get('p50')} and {owd_ns.get('p99')} ns +- "
                     f"{owd_ns.get('bound')} {row.get('error', row.get('missed', ''))}")
        tap.equal([row["qps"] for row in rows if row.get("gbps", 0) > 0 and row["nic"] == NIC], LOADS,
                  f"audit: the ring of {name}: a bandwidth with 1, 2, 4 and 8 queue pairs")
        tap.check(all(row.get("idle_owd_ns", 0) > 0 for row in rows), f"audit: {name}'s idle delay beside it", rows)
        tap.equal([row["owd_ns"]["qps"] for row in rows if "owd_ns" in row], LOADS,
                  f"audit: {name}: the delays of all of perftest's queue pairs")
        tap.equal([group["number"] for group in report["groups"] if group["number"] > "5"],
                  ["5.1", "5.2", "5.3", "5.4"], "audit: in part 5 of the screen")


def new_errors(fleet, healthy, wanted):
    """({(host, nic)}, merged report) of the errors that healthy hosts do not have; until they are as wanted, with patience: the
    clocks of a busy machine come and go."""
    def look():
        _, merged = fleet.audit()
        found.append((failures(merged) - healthy, merged))
        return {(host, nic) for host, nic, _ in found[-1][0]} == wanted
    found = []
    labtest.wait_for(look, PATIENCE)
    return found[-1]


def check_fault(tap, fleet, healthy, label, check):
    """New errors are of one NIC, the check's one of them, each with its remedy."""
    new, merged = new_errors(fleet, healthy, {(AT_FAULT, NIC)})
    tap.note(f"{label}: {sorted(new)}")
    tap.check((AT_FAULT, NIC, check) in new, f"audit: {label}: reported with host and NIC", sorted(new))
    tap.equal({(host, nic) for host, nic, _ in new}, {(AT_FAULT, NIC)}, f"audit: {label}: no other host, no other NIC")
    remedies = [entry for entry in merged["results"] if entry["result"] == "fail" and not entry.get("remedy")]
    tap.check(not remedies, f"audit: {label}: with the remedy", remedies)


def test_audit(tap, folder):
    """Audits of two soft-RoCE guests: a ring with 1, 2, 4 and 8 queue pairs beside delays; GID index, MTU, port down."""
    cleanup.make_ready(**owd.configuration())
    owd.wait_synced()
    fleet = Fleet(folder)
    reports, _ = fleet.audit("--fleet", *RING)
    if not tap.check(all(isinstance(report, dict) for report in reports.values()), "audit: both guests report", reports):
        return
    check_ring(tap, reports)
    fleet.expected = {check: value_of(reports[CLIENT], check) for check in ("roce.gid_same", "roce.mtu")}
    # Of the hosts alone: on a busy machine guests lose probes, which is no error of theirs.
    healthy = failures(fleet.audit()[1])
    tap.note(f"healthy: {sorted(healthy)}; expected {fleet.expected}")
    tap.check(not [nic for _, nic, _ in healthy if nic == NIC], "audit: no error of a NIC without a fault", sorted(healthy))
    address = json.loads(in_guest(AT_FAULT, "ip -4 -j addr show dev eth0"))[0]["addr_info"][0]
    routes = in_guest(AT_FAULT, "ip -4 route show dev eth0 proto static; ip -4 route show dev eth0 proto boot").splitlines()
    place = f"{address['local']}/{address['prefixlen']}"
    back = "; ".join(f"ip route replace {route} dev eth0" for route in routes) or "true"
    in_guest(AT_FAULT, f"ip addr del {place} dev eth0; ip -6 addr add fd99::1/64 dev eth0 nodad; sleep 0.5; "
             f"ip addr add {place} dev eth0; {back}")
    owd.wait_synced()
    check_fault(tap, fleet, healthy, "another GID index", "roce.gid_same")
    in_guest(AT_FAULT, f"ip addr del {place} dev eth0; ip -6 addr del fd99::1/64 dev eth0; sleep 0.5; "
             f"ip addr add {place} dev eth0; {back}")
    in_guest(AT_FAULT, "ip link set dev eth0 mtu 1400")
    owd.wait_synced()
    check_fault(tap, fleet, healthy, "another MTU", "roce.mtu")
    in_guest(AT_FAULT, "ip link set dev eth0 mtu 1500")
    in_guest(AT_FAULT, "ip link set dev eth0 down")
    check_fault(tap, fleet, healthy, "a port that is down", "nic.active")
    in_guest(AT_FAULT, f"ip link set dev eth0 up; {back}")
    owd.wait_synced()
    tap.equal(new_errors(fleet, healthy, set())[0], set(), "audit: nothing when all is as before")
