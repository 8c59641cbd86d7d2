# SPDX-License-Identifier: BSD-2-Clause
"""Owners of queue pairs: process and job of 64 of them, from creation to destruction."""
import collections
import contextlib
import json
import os
import re
import threading
import time

from emulation import channel, daemon, perftest, state

from . import bench, cleanup

QPS = 16  # of a rank
CGROUPS = "/sys/fs/cgroup"
NAMES = "/run/ranks"  # comm is the name that a program was started by
CONTAINER = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
POD = "8d2d37a1-6d4c-4e5e-9c3b-0f6a1b2c3d4e"
# comm: cgroup, job
RANKS = {
    "rank0": ("system.slice/slurmstepd.scope/job_1234/step_0/user/task_0", "job_1234/step_0"),
    "rank1": ("system.slice/slurmstepd.scope/job_1234/step_1/user/task_0", "job_1234/step_1"),
    "trainer": (f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
                f"{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
                f"pod_{POD}/{CONTAINER[:12]}"),
    "archiver": ("system.slice/archiver.service", "archiver.service"),
}
FIRST_PORT = 18700
# Little, and for longer than any check takes: the test ends it.
LOAD = ("-s", "1024", "-n", "1000000", "--rate_limit", "0.1", "--rate_units", "M",
        "--rate_limit_type", "SW")
NICE = 19
START = f"""mkdir -p "$0" {NAMES} && echo $$ >"$0/cgroup.procs" &&
ln -sf "$(command -v ib_write_bw)" {NAMES}/"$1" && name=$1 && shift 5 &&
exec nice -n {NICE} {NAMES}/"$name" "$@" """
SECONDS = 90

Owner = collections.namedtuple("Owner", "remote_qpn pid comm job")


class Ranks:
    """ib_write_bw under four names in four cgroups of the client, each with its server."""

    def __init__(self):
        self.leave = {name: threading.Event() for name in RANKS}
        self.ended = {}  # rank: output of a client or server that ended early
        self.threads = []
        self.gids = {name: perftest.gid_index(name, 4) for name in bench.GUESTS}

    def begin(self, number, name):
        argv = perftest.tool_argv("ib_write_bw", self.gids[bench.SERVER], FIRST_PORT + number, QPS,
                                  LOAD, NICE)
        self.run(name, bench.SERVER, argv)
        if not channel.wait_listen(bench.SERVER, FIRST_PORT + number):
            raise TimeoutError(f"the server of {name} does not listen")
        argv = perftest.tool_argv("ib_write_bw", self.gids[bench.CLIENT], FIRST_PORT + number, QPS,
                                  LOAD, NICE)
        target = str(perftest.addresses(bench.SERVER)[4])
        self.run(name, bench.CLIENT,
                 ["/bin/sh", "-c", START, f"{CGROUPS}/{RANKS[name][0]}", name, *argv, target])

    def run(self, name, guest, argv):
        def body():
            result = channel.run(guest, argv, 4 * SECONDS, leave=self.leave[name])
            if not self.leave[name].is_set():
                self.ended[name] = (guest, result.rc, (result.out + result.err)[-500:])
        thread = threading.Thread(target=body)
        thread.start()
        self.threads.append(thread)

    def __enter__(self):
        try:
            for number, name in enumerate(RANKS):
                self.begin(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for event in self.leave.values():
            event.set()
        for thread in self.threads:
            thread.join()


def pids():
    """{pid: rank} by the cgroups' own lists."""
    found = {}
    for name, (cgroup, _) in RANKS.items():
        listed = channel.run(bench.CLIENT, ["cat", f"{CGROUPS}/{cgroup}/cgroup.procs"]).out
        found.update((int(pid), name) for pid in listed.split())
    return found


def expected_owners():
    """{local QPN: Owner} of the client, by rdma(8) and the cgroups."""
    ranks, found = pids(), {}
    for qp in json.loads(channel.read(bench.CLIENT, ["rdma", "-j", "resource", "show", "qp"])):
        if qp.get("type") == "RC" and qp.get("pid") in ranks and qp["state"] == "RTS":
            name = ranks[qp["pid"]]
            found[qp["lqpn"]] = Owner(qp["rqpn"], qp["pid"], name, RANKS[name][1])
    return found


# As perftest.TIMEOUTS has it.
ACK_TIMEOUT_US = 4096 * 2**20 // 1000


def owned_flows(direction):
    """[entry] of `qp` on the client that have an owner."""
    return [qp for qp in escapement_qps() if qp["direction"] == direction and "local_qpn" in qp]


def escapement_qps():
    return bench.escapement(bench.CLIENT, "qp")["qps"]


def tracing():
    return bench.escapement(bench.CLIENT, "status")["qp_tracing"]


def in_map():
    """{local QPN} of the pinned map, by bpftool."""
    dump = json.loads(channel.read(bench.CLIENT, ["bpftool", "-j", "map", "dump", "pinned",
                                                  f"{cleanup.PINS}/qp_owners"]))
    return {entry["formatted"]["key"]["qpn"] for entry in dump}


def wait_for(read, good, what):
    """Reads until it is good; returns what was read last, good or not."""
    deadline = time.monotonic() + SECONDS
    while True:
        value = read()
        if good(value) or time.monotonic() > deadline:
            return value
        time.sleep(0.5)


def check_entries(tap, label, wanted, gid_type):
    """Every flow of the 64 names the right queue pair, process, program and job."""
    total = len(wanted)
    for direction in ("tx", "rx"):
        entries = wait_for(lambda: owned_flows(direction), lambda got: len(got) >= total, label)
        tap.equal(len(entries), total, f"{label}: {direction} flows of {total} queue pairs have an "
                  "owner")
        wrong = []
        for entry in entries:
            real = wanted.get(entry["local_qpn"])
            number = entry["dest_qpn"] == (real and real.remote_qpn if direction == "tx"
                                           else entry["local_qpn"])
            timer = ACK_TIMEOUT_US if gid_type else None  # of a traced one
            if not real or not number or entry.get("gid_type") != gid_type or entry.get("foreign") or \
                    entry.get("ack_timeout_us") != timer or \
                    (entry.get("pid"), entry.get("comm"), entry.get("job")) != real[1:]:
                wrong.append((entry["local_qpn"], real, entry))
        tap.check(not wrong, f"{label}: local number, pid, comm and job of each {direction} flow",
                  "\n".join(map(str, wrong[:4])))


def check_metrics(tap, wanted):
    """qp_info of the textfile has the same owners, within its budget of series."""
    def lines():
        text = channel.read(bench.CLIENT, ["cat", "/var/lib/prometheus/node-exporter/"
                                           "escapement.prom"])
        return [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in text.splitlines()
                if line.startswith("escapement_qp_info{") and "local_qpn" in line]
    found = wait_for(lines, bool, "qp_info")
    wrong = [line for line in found if int(line["local_qpn"]) not in wanted or
             (int(line["pid"]), line["comm"], line["job_id"]) != wanted[int(line["local_qpn"])][1:] or
             line["device"] != "rxe0" or line["roce_version"] != "2"]
    tap.check(found and not wrong, f"owners: {len(found)} series of qp_info name them", wrong[:3])


def check_ends(tap, ranks, wanted):
    """A rank that is killed takes its queue pairs out of the table; so do all at the end."""
    killed = next(pid for pid, name in pids().items() if name == "rank1")
    ranks.leave["rank1"].set()
    channel.read(bench.CLIENT, ["sh", "-c", f"kill -9 {killed} 2>&1 || test ! -d /proc/{killed}"])
    left = {qpn for qpn, real in wanted.items() if real.comm != "rank1"}
    now = wait_for(in_map, lambda got: got == left, "killed")
    tap.equal(now, left, f"owners: after kill -9 of one rank {len(left)} are left in the map")


class Watch:
    """tests/tools/trace_watch on the client: what one tracing method sees of a perftest run."""

    def __init__(self, how):
        self.how, self.leave, self.lines = how, threading.Event(), b""
        self.result = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        program = os.path.join(state.BUILD, "tests/tools/trace_watch")
        self.result = channel.run(bench.CLIENT, [program, self.how], 4 * SECONDS,
                                  on_output=self.take, leave=self.leave)

    def take(self, _stream, data):
        self.lines += data

    def lines_of(self, first):
        """The lines that begin with @first, split, without it."""
        lines = [line.split() for line in self.lines.decode("utf-8", "replace").splitlines()]
        return [line[1:] for line in lines if line and line[0] == first]

    def __enter__(self):
        self.thread.start()
        wait_for(lambda: self.lines_of("ready") or not self.thread.is_alive(), bool, "trace_watch")
        return self

    def __exit__(self, *_):
        self.leave.set()
        self.thread.join()


def test_qp_trace_methods(tap, _folder):
    """fentry and kprobes see the same: numbers, GIDs, process, path MTU, and the end."""
    local, remote = (str(perftest.addresses(name)[4]) for name in (bench.CLIENT, bench.SERVER))
    index = str(perftest.gid_index(bench.CLIENT, 4))
    for how in ("fentry", "kprobe"):
        with Watch(how) as watch:
            tap.equal(watch.lines_of("ready"), [[how]], f"trace by {how}: attached")
            done = perftest.run(bench.CLIENT, bench.SERVER, "ib_write_bw", qps=4,
                                extra=("-s", "1024", "-n", "16"))["summary"]
            wait_for(lambda: watch.lines_of("down"), lambda got: len(got) >= 4, "the end")
        # QPN REMOTE_QPN REMOTE LOCAL PID COMM GID_TYPE SGID_INDEX PMTU PORT DEVICE
        seen = sorted(line[:4] + line[5:] for line in watch.lines_of("up"))
        wanted = sorted([str(mine), str(theirs), remote, local, "ib_write_bw", "3", index, "1024",
                         "1", "rxe0"]
                        for mine, theirs in zip(done["client_qpns"], done["server_qpns"]))
        tap.equal(seen, wanted, f"trace by {how}: 4 queue pairs as perftest prints them")
        tap.equal(len({line[4] for line in watch.lines_of("up")}), 1, f"trace by {how}: one process")
        tap.equal(sorted(watch.lines_of("down")), sorted([str(q)] for q in done["client_qpns"]),
                  f"trace by {how}: they are gone when it has ended")


@contextlib.contextmanager
def clean_after():
    """No cgroup of the test's stays in the guest."""
    try:
        yield
    finally:
        for cgroup, _ in RANKS.values():
            parts = cgroup.split("/")
            for depth in range(len(parts), 0, -1):
                channel.run(bench.CLIENT, ["rmdir", f"{CGROUPS}/{'/'.join(parts[:depth])}"])


def test_qp_owners(tap, _folder):
    """Process and job of 64 queue pairs of four processes; traced, listed, and gone."""
    cleanup.make_ready()
    with bench.nice_counts(), clean_after(), Ranks() as ranks:
        total = QPS * len(RANKS)
        wanted = wait_for(expected_owners, lambda got: len(got) == total, "ranks")
        tap.check(len(wanted) == total, f"owners: {len(wanted)} queue pairs of {len(RANKS)} "
                  "processes are connected", ranks.ended)
        how = wait_for(tracing, lambda got: got["method"] != "none", "tracing")["method"]
        tap.equal(how, "fentry", "owners: traced by fentry")
        check_entries(tap, "owners, traced", wanted, "RoCE v2")
        tap.equal(in_map(), set(wanted), "owners: the pinned map has them, read by bpftool")
        check_metrics(tap, wanted)
        daemon.control(bench.CLIENT, "restart")
        check_entries(tap, "owners, after a restart", wanted, "RoCE v2")
        cleanup.remove([bench.CLIENT])
        daemon.start([bench.CLIENT])
        check_entries(tap, "owners, of before the daemon", wanted, None)
        tap.equal(tracing()["known"], total, "owners: RDMA netlink listed them all")
        check_ends(tap, ranks, wanted)
    rest = wait_for(in_map, lambda got: not got, "the end")
    tap.equal(rest, set(), "owners: the map is empty when all have ended")
    tap.equal(wait_for(lambda: tracing()["known"], lambda got: not got, "the end"), 0,
              "owners: status counts none")


def test_qp_listed(tap, _folder):
    """Where lockdown forbids tracing, processes come from RDMA netlink. Cannot be undone: last."""
    cleanup.make_absent([bench.CLIENT])
    channel.read(bench.CLIENT, ["sh", "-c", "echo confidentiality >/sys/kernel/security/lockdown"])
    daemon.start([bench.CLIENT])
    with bench.nice_counts(), clean_after(), Ranks():
        total = QPS * len(RANKS)
        wanted = wait_for(expected_owners, lambda got: len(got) == total, "ranks")
        tap.equal(len(wanted), total, f"listed: {total} queue pairs are connected")
        how = wait_for(tracing, lambda got: got["known"] == total, "netlink")
        tap.equal((how["method"], how["known"]), ("netlink", total), "listed: by RDMA netlink")
        tap.check("traced" in how.get("note", ""), "listed: status gives the reason", how)
        check_entries(tap, "listed", wanted, None)
    tap.equal(wait_for(lambda: tracing()["known"], lambda got: not got, "the end"), 0,
              "listed: none is left when all have ended")
