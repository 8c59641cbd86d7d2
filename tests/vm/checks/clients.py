# SPDX-License-Identifier: BSD-2-Clause
"""Programs that nobody here wrote, at their defaults, over two soft-RoCE machines: NVMe over Fabrics under fio with
data verification, UCX, librdmacm's rping, Open MPI and perftest, each while its queue pairs are moved, while daemons start
again, and while the path in use fails."""
import concurrent.futures
import contextlib
import functools
import json
import shutil
import threading
import time

from emulation import channel, daemon, perftest, state

from . import bench, cleanup, failover, owd, steer
from .bench import CLIENT, SERVER

NEEDED = ("fio", "nvme", "ucx_perftest", "rping", "mpirun", "dropbear")
NQN = "escapement-test"
DISK_MIB, SECONDS, LIMIT_SECONDS = 64, 10, 120
RESTARTS_SECONDS = 25  # a start takes many, the verifier is emulated
PORT = 4420
MOVES_MIN = 10
RESTART_GAP_S = 2
FAILURES_SECONDS, FAILURE_GAP_S = 20, 4
ONLY = ""  # runs with one of these strings (a,b) in their label
MPI_OVER_UCX = "Open MPI over UCX"
SHELL_KEY = "/root/.ssh/id_dropbear"
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
       "--verify=crc32c --verify_backlog=64 --verify_fatal=1 --output-format=json")
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
    """{good, output, longest_ms, requests} of a run with verification."""
    result = shell(CLIENT, FIO.format(seconds=seconds), seconds + LIMIT_SECONDS)
    seen = {"good": False, "output": result.out[-2000:] + result.err}
    with contextlib.suppress(ValueError, KeyError, IndexError):
        job = json.loads(result.out[result.out.index("{"):])["jobs"][0]
        seen.update(good=result.rc == 0 and job["error"] == 0,
                    requests=job["read"]["total_ios"] + job["write"]["total_ios"],
                    longest_ms=max(job[way]["clat_ns"]["max"] for way in ("read", "write")) / 1e6)
    return seen


def repeated(command, seconds):
    """Runs a pair of programs (run_pair()'s arguments) until the time is over: {good, output, runs}."""
    deadline, runs = time.monotonic() + seconds, 0
    while True:
        seen = run_pair(*command)
        runs += 1
        if not seen["good"] or time.monotonic() > deadline:
            return dict(seen, runs=runs)


def run_ucx(seconds):
    """UCX's own test program, tag matching over RC. By an IPv6 GID: UCX sets RC up over UD, and its UD over an IPv4
    GID of soft-RoCE times out, without any program of ours as well."""
    command = "UCX_NET_DEVICES=rxe0:1 UCX_TLS=rc,self UCX_IB_GID_INDEX={} UCX_LOG_LEVEL=warn " \
              "ucx_perftest -p 13337 -t tag_bw -s 16384 -n 300 -w 10"
    serve, use = (command.format(perftest.gid_index(name, 6)) for name in (SERVER, CLIENT))
    return repeated((serve, f"{use} {bench.address_of(SERVER, 4)}", 13337), seconds)


def run_rping(seconds):
    """librdmacm's ping-pong of SEND, READ and WRITE, with validation of the data."""
    address = bench.address_of(SERVER, 4)
    return repeated((f"rping -s -a {address} -p 7174 -V -C 200",
                     f"sleep 1; rping -c -a {address} -p 7174 -V -C 200"), seconds)


@contextlib.contextmanager
def mpi_shell():
    """mpirun on the client may start ranks on the server, by dropbear's SSH."""
    channel.read(CLIENT, ["sh", "-c", f"mkdir -p /root/.ssh && dropbearkey -t ed25519 -f {SHELL_KEY}"])
    key = next(line for line in channel.read(CLIENT, ["dropbearkey", "-y", "-f", SHELL_KEY]).splitlines()
               if line.startswith("ssh-"))
    channel.read(SERVER, ["sh", "-c", f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys && chmod -R go= "
                          "/root/.ssh && dropbearkey -t ed25519 -f /run/dropbear.key && dropbear -r /run/dropbear.key "
                          "-P /run/dropbear.pid"])
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


def moved(over):
    """Both guests give all that sends new source ports until @over."""
    bench.each(lambda name: channel.read(name, ["rm", "-f", steer.STOP_FILE]))
    with concurrent.futures.ThreadPoolExecutor(len(bench.GUESTS)) as pool:
        movers = [pool.submit(steer.move, name) for name in bench.GUESTS]
        over.wait()
        bench.each(lambda name: channel.read(name, ["touch", steer.STOP_FILE]))
        results = [mover.result() for mover in movers]
    return {"moves": sum(one["given"] for one in results), "refused": sum((one["refusals"] for one in results), [])}


def restarted(over):
    """Both daemons start again, in turns by order and by SIGKILL, until @over."""
    times = 0
    while not over.wait(RESTART_GAP_S):
        bench.each(lambda name: daemon.control(name, ("restart", "kill")[times % 2]))
        times += 1
    return {"restarts": times}


def path_failed(over):
    """The path of the busiest queue pair loses everything for 3 s, both ways, again and again until @over."""
    times = 0
    while failover.wait_flows(True) and not over.wait(FAILURE_GAP_S):
        failover.fail("both")
        times += 1
    return {"failures": times}


DISTURBANCES = (("untouched", None), ("while it is moved", moved), ("while daemons start again", restarted))
SECONDS_OF = {restarted: RESTARTS_SECONDS, path_failed: FAILURES_SECONDS}


def run_disturbed(run, disturb):
    """What @run says, what the disturbance says, and what soft-RoCE repaired meanwhile."""
    over, before = threading.Event(), bench.each(bench.rxe_counters)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(disturb, over) if disturb else None
        try:
            seen = run(SECONDS_OF.get(disturb, SECONDS))
        finally:
            over.set()
        if disturbing:
            seen.update(disturbing.result())
    after = bench.each(bench.rxe_counters)
    seen["repairs"] = {f"{name} {counter}": now[counter] - then[counter]
                       for name, then, now in zip(bench.GUESTS, before, after)
                       for counter in bench.REPAIRS if now[counter] != then[counter]}
    return seen


def check_client(tap, label, run, disturbances=DISTURBANCES):
    for what, disturb in disturbances:
        if not any(text in f"{label} {what}" for text in ONLY.split(",")):
            continue
        lost, seen = lost_lines(), run_disturbed(run, disturb)
        shown = {key: value for key, value in seen.items() if key not in ("good", "output")}
        tap.note(f"{label}, {what}: {shown}")
        tap.check(seen["good"], f"{label}, {what}: it ran to its end, its data is right", seen["output"])
        tap.check(lost_lines() == lost, f"{label}, {what}: no queue pair ended", shell(CLIENT, "dmesg | tail -20").out)
        if disturb is moved:
            tap.check(seen["moves"] >= MOVES_MIN, f"{label}, {what}: {seen['moves']} moves", shown)
        elif disturb is restarted:
            tap.check(seen["restarts"], f"{label}, {what}: {seen['restarts']} starts of each daemon", shown)
        elif disturb is path_failed:
            tap.check(seen["failures"], f"{label}, {what}: {seen['failures']} failures", shown)


def test_clients(tap, folder):
    """fio on NVMe over Fabrics, UCX, rping, Open MPI and perftest: moved, daemons start again, their path fails."""
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if not tap.check(not missing, "the programs are here", f"{missing}: tests/deps long"):
        return
    cleanup.make_ready(members=owd.members(), key=owd.KEY)
    steer.set_mode("steer")
    verbs = [("rping", run_rping), (MPI_OVER_UCX, functools.partial(run_mpi, MPI_UCX))]
    verbs += [(f"ib_write_bw, timeout {timeout}", functools.partial(run_perftest, timeout))
              for timeout in PERFTEST_TIMEOUTS]
    try:
        with nvme_disk():
            check_client(tap, "NVMe over Fabrics", run_fio)
        check_client(tap, "UCX", run_ucx)
        with mpi_shell():
            for label, run in verbs:
                check_client(tap, label, run)
            check_client(tap, "Open MPI over TCP", functools.partial(run_mpi, MPI_TCP),
                         [one for one in DISTURBANCES if one[1] is not moved])
            # NVMe over Fabrics: the test repair. UCX uses IPv6 here, of which this fabric's spines do not fail.
            cleanup.make_fresh(top=failover.AUTO, members=owd.members(), key=owd.KEY)
            owd.wait_synced()
            for label, run in verbs:
                if label != MPI_OVER_UCX:
                    check_client(tap, label, run, [("while its path fails", path_failed)])
    finally:
        steer.set_mode("observe")
