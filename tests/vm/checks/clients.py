# SPDX-License-Identifier: BSD-2-Clause
"""Third-party programs, at their defaults, over two soft-RoCE machines: NVMe over Fabrics under fio with
data verification, UCX, librdmacm's rping, Open MPI and perftest, each while its queue pairs are moved, while daemons start
again, while the path in use and NICs fail (disturb), and paced."""
import concurrent.futures
import contextlib
import functools
import json
import shutil
import threading
import time

from emulation import channel, perftest, state

from . import bench, disturb, failover
from .bench import CLIENT, SERVER

NEEDED = ("fio", "nvme", "ucx_perftest", "rping", "mpirun", "dropbear")
NQN = "escapement-test"
DISK_MIB, SECONDS, LIMIT_SECONDS = 64, 10, 120
PORT = 4420
# A start takes many, the verifier is emulated; failures and moves repeat.
SECONDS_OF = {disturb.moved: 45, disturb.restarted: 25, disturb.path_failed: 60, disturb.nic_failed: 30}
ONLY = ""  # runs with one of these strings (a,b) in their label
MPI_OVER_UCX, MPI_OVER_TCP = "Open MPI over UCX", "Open MPI over TCP"
# The daemons, and what happens with them.
DISTURBANCES = (
    (disturb.by_hand, (("untouched", None), ("while it is moved", disturb.moved),
                       ("while daemons start again", disturb.restarted))),
    (disturb.protected, (("while its path fails", disturb.path_failed),)),
    (disturb.two_nics, (("while a NIC fails", disturb.nic_failed),)),
    (disturb.pacing, (("paced", disturb.paced),)),
)
LEAST = {"moves": 25, "restarts": 1, "failures": 1, "held": 1}
# Of those whose own timer is longer, and which send without a pause: beside the longest gap of the same run without a
# failure. dead_after is 100 ms.
JUDGED = (MPI_OVER_UCX, "ib_write_bw, timeout 18")
LONGEST_MS = {disturb.path_failed: 350, disturb.nic_failed: 500}
SHELL_KEY = "/root/.ssh/id_dropbear"
UCX_PER_SECOND, RPING_PER_SECOND = 60, 20  # below what emulated machines do: a run lasts, and ends in time
PERFTEST_TIMEOUTS = ("14", "18", "20")  # 67 ms, perftest's default; 1.1 s; 4.3 s
TARGET = f"""set -e
modprobe nvmet-rdma; modprobe loop
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/{NQN}; echo 1 >subsystems/{NQN}/attr_allow_any_host
dd if=/dev/zero of=/dev/shm/disk bs=1M count={DISK_MIB} 2>/dev/null
mkdir subsystems/{NQN}/namespaces/1
losetup -f --show /dev/shm/disk | tr -d '\\n' >subsystems/{NQN}/namespaces/1/device_path
echo 1 >subsystems/{NQN}/namespaces/1/enable
mkdir ports/1; cd ports/1
echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo {{address}} >addr_traddr; echo {PORT} >addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NQN} subsystems/{NQN}
"""
TARGET_END = f"""cd /sys/kernel/config/nvmet || exit 0
rm -f ports/1/subsystems/{NQN}; rmdir ports/1; echo 0 >subsystems/{NQN}/namespaces/1/enable
rmdir subsystems/{NQN}/namespaces/1 subsystems/{NQN}; losetup -D; rm -f /dev/shm/disk
"""
FIO = ("cd $(mktemp -d) && fio --name=v --filename=/dev/nvme0n1 --rw=randrw --bs=16k --iodepth=4 "
       f"--ioengine=libaio --direct=1 --size={DISK_MIB // 2}m --time_based=1 --runtime={{seconds}} "
       "--verify=crc32c --verify_backlog=64 --verify_fatal=1 --output-format=json --write_lat_log=v --log_unix_epoch=1; "
       "code=$?; sort -t, -k2nr v_clat.*.log | head -n 50; exit $code")
# What nvme-rdma says when it loses a queue pair; it connects again 10 s later.
LOST = "nvme.*(econnect|error recovery|timeout|failed)"


def shell(name, text, seconds=LIMIT_SECONDS):
    return channel.run(name, ["sh", "-c", text], seconds)


@contextlib.contextmanager
def nvme_disk():
    """/dev/nvme0n1 on the client is a disk of the server's memory, by two queue pairs."""
    address = bench.address_of(SERVER, 4)
    try:
        channel.read(SERVER, ["sh", "-c", TARGET.format(address=address)])
        channel.read(CLIENT, ["sh", "-c", f"modprobe nvme-rdma && nvme connect -t rdma -a {address} "
                              f"-s {PORT} -n {NQN} -i 1 && udevadm settle 2>/dev/null; "
                              "for i in $(seq 50); do test -b /dev/nvme0n1 && exit; sleep 0.1; done; exit 1"])
        yield
    finally:
        shell(CLIENT, f"nvme disconnect -n {NQN}")
        shell(SERVER, TARGET_END)


def lost_lines():
    return int(shell(CLIENT, f"dmesg | grep -cE '{LOST}'").out or 0)


def run_fio(seconds):
    """{good, output, longest_ms, requests, slowest: [(completed, by the guest's CLOCK_REALTIME in s; ms)]} of a run
    with verification."""
    result = shell(CLIENT, FIO.format(seconds=seconds), seconds + LIMIT_SECONDS)
    seen = {"good": False, "output": result.out[-2000:] + result.err}
    with contextlib.suppress(ValueError, KeyError, IndexError):
        told, end = json.JSONDecoder().raw_decode(result.out[result.out.index("{"):])
        job = told["jobs"][0]
        seen.update(good=result.rc == 0 and job["error"] == 0,
                    requests=job["read"]["total_ios"] + job["write"]["total_ios"],
                    longest_ms=max(job[way]["clat_ns"]["max"] for way in ("read", "write")) / 1e6)
        rows = [line.split(",") for line in result.out[result.out.index("{") + end:].split("\n") if "," in line]
        seen["slowest"] = [(float(row[0]) / 1e3, round(float(row[1]) / 1e6)) for row in rows]
    return seen


def repeated(command, seconds):
    """Runs a pair of programs (run_pair()'s arguments) until the time is over: {good, output, runs}."""
    deadline, runs = time.monotonic() + seconds, 0
    while True:
        seen = run_pair(*command)
        runs += 1
        if not seen["good"] or time.monotonic() > deadline:
            return dict(seen, runs=runs)


def run_ucx(seconds, under=""):
    """UCX's own test program, tag matching over RC; @under: what comes before its command, as NAME=VALUE. By an IPv6 GID: UCX sets RC up over UD, and its UD over an IPv4
    GID of soft-RoCE times out, without any program of ours as well."""
    command = under + " UCX_NET_DEVICES=rxe0:1 UCX_TLS=rc,self UCX_IB_GID_INDEX={} UCX_LOG_LEVEL=warn " \
              "ucx_perftest -p 13337 -t tag_bw -s 16384 -n {} -w 10"
    serve, use = (command.format(perftest.gid_index(name, 6), UCX_PER_SECOND * seconds) for name in (SERVER, CLIENT))
    return repeated((serve, f"{use} {bench.address_of(SERVER, 4)}", 13337), seconds)


def run_rping(seconds, under=""):
    """librdmacm's ping-pong of SEND, READ and WRITE, with validation of the data."""
    address = bench.address_of(SERVER, 4)
    return repeated((f"{under} rping -s -a {address} -p 7174 -V -C {RPING_PER_SECOND * seconds}",
                     f"sleep 1; {under} rping -c -a {address} -p 7174 -V -C {RPING_PER_SECOND * seconds}"), seconds)


@contextlib.contextmanager
def mpi_shell():
    """mpirun on the client may start ranks on the server, by dropbear's SSH."""
    channel.read(CLIENT, ["sh", "-c", f"mkdir -p /root/.ssh && dropbearkey -t ed25519 -f {SHELL_KEY}"])
    key = next(line for line in channel.read(CLIENT, ["dropbearkey", "-y", "-f", SHELL_KEY]).splitlines()
               if line.startswith("ssh-"))
    channel.read(SERVER, ["sh", "-c", f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys && chmod -R go= "
                          "/root/.ssh && rm -f /run/dropbear.key && dropbearkey -t ed25519 -f /run/dropbear.key && dropbear "
                          "-r /run/dropbear.key -P /run/dropbear.pid"])
    try:
        yield
    finally:
        shell(SERVER, "kill $(cat /run/dropbear.pid)")
        bench.each(lambda name: shell(name, "rm -rf /root/.ssh"))


def run_mpi(over, seconds):
    """All-reduce and all-to-all of two ranks; @over: options of mpirun, and those of each rank's guest."""
    shared, own = over
    ranks = " : ".join(f"-n 1 --host {bench.address_of(name, 4)} {own(name)} {state.guest(name)['share']}/guest/mpi_loop "
                       f"{seconds}" for name in (CLIENT, SERVER))
    result = shell(CLIENT, "mpirun --allow-run-as-root --mca plm_rsh_agent "
                   f"'dbclient -y -y -i {SHELL_KEY}' --mca oob_tcp_if_include eth0 {shared} {ranks}",
                   seconds + LIMIT_SECONDS)
    seen = {"good": False, "output": (result.out + result.err)[:4000]}
    with contextlib.suppress(ValueError, KeyError):
        told = json.loads(result.out[result.out.index("{"):])
        seen.update(told, good=result.rc == 0 and told["rounds"] > 0 and not told["wrong"])
    return seen


# By an IPv6 GID, as run_ucx().
MPI_UCX = ("--mca pml ucx --mca osc ^ucx -x UCX_NET_DEVICES=rxe0:1 -x UCX_TLS=rc,self",
           lambda name: f"-x UCX_IB_GID_INDEX={perftest.gid_index(name, 6)}")
MPI_TCP = ("--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0", lambda name: "")


def run_perftest(timeout, seconds):
    """ib_write_bw with a queue pair timeout of 4.096 us * 2^@timeout."""
    result = perftest.run(CLIENT, SERVER, "ib_write_bw", qps=2, nice=failover.NICE, seconds=seconds + LIMIT_SECONDS,
                          extra=["-u", timeout, "-D", str(seconds), "-s", "16384"])
    return {"good": result["good"], "output": result["client_output"] + result["server_output"]}


def run_pair(serve, use, port=None):
    leave = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        serving = pool.submit(channel.run, SERVER, ["sh", "-c", serve], LIMIT_SECONDS, leave=leave)
        if port:
            channel.wait_listen(SERVER, port, LIMIT_SECONDS)
        result = shell(CLIENT, use)
        if result.rc:
            leave.set()
        served = serving.result()
    return {"good": result.rc == 0 and served.rc == 0, "output": (result.out + result.err + served.err)[-2000:]}


def is_wanted(text):
    return any(part in text for part in ONLY.split(","))


def describe(name):
    """What a daemon says of its paths, of its queue pairs on them, and what happened in the last three minutes."""
    return name + "\n" + channel.read(name, ["sh", "-c", "escapement paths; escapement steer; escapement events --since 3m"])


def check_client(tap, label, program, what, how):
    lost, seen = lost_lines(), disturb.run(program, how, SECONDS_OF.get(how, SECONDS))
    shown = {key: value for key, value in seen.items() if key not in ("good", "output", "slowest")}
    tap.note(f"{label}, {what}: {shown}")
    tap.check(seen["good"], f"{label}, {what}: it ran to its end, its data is right", seen["output"])
    tap.check(lost_lines() == lost, f"{label}, {what}: no queue pair ended", shell(CLIENT, "dmesg | tail -20").out)
    for key, least in LEAST.items():
        if key in seen:
            tap.check(seen[key] >= least, f"{label}, {what}: {seen[key]} {key}", shown)
    if label in JUDGED and how in LONGEST_MS:
        limit = LONGEST_MS[how] + seen["calm_ms"]
        good = seen["gaps_ms"] and max(seen["gaps_ms"]) <= limit
        tap.check(good, f"{label}, {what}: the longest gap is {max(seen['gaps_ms'], default=0)} ms, at most {limit}",
                  "\n".join([str(shown), *(() if good else bench.each(describe))]))


def applies(label, how):
    """TCP has no queue pairs: it is neither moved nor repaired nor paced. rping has one packet on its way: nothing to hold."""
    return how in (None, disturb.restarted) if label == MPI_OVER_TCP else (label, how) != ("rping", disturb.paced)


def programs():
    """{label: (program, its context)}"""
    found = {"NVMe over Fabrics": (run_fio, nvme_disk), "UCX": (run_ucx, contextlib.nullcontext),
             "rping": (run_rping, contextlib.nullcontext), MPI_OVER_UCX: (functools.partial(run_mpi, MPI_UCX), mpi_shell),
             MPI_OVER_TCP: (functools.partial(run_mpi, MPI_TCP), mpi_shell)}
    for timeout in PERFTEST_TIMEOUTS:
        found[f"ib_write_bw, timeout {timeout}"] = (functools.partial(run_perftest, timeout), contextlib.nullcontext)
    return found


def test_clients(tap, folder):
    """fio on NVMe over Fabrics, UCX, rping, Open MPI and perftest: moved, daemons start again, paths and NICs fail, paced."""
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if not tap.check(not missing, "the programs are here", f"{missing}: tests/deps long"):
        return
    for daemons, disturbances in DISTURBANCES:
        wanted = [(label, *program, what, how) for label, program in programs().items()
                  for what, how in disturbances if is_wanted(f"{label} {what}") and applies(label, how)]
        if not wanted:
            continue
        if daemons is disturb.two_nics and bench.KERNEL < (6, 6):
            tap.skip("programs while a NIC fails", "NIC failover needs tcx, which came with Linux 6.6")
            continue
        with daemons():
            for label, program, context, what, how in wanted:
                with context():
                    check_client(tap, label, program, what, how)
