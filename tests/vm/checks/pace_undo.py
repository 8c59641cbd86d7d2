# SPDX-License-Identifier: BSD-2-Clause
"""fq on devices with one queue and with several, undone by the command and without a daemon."""
import json
import time

from emulation import daemon, state

from . import paceworld as world

DEVICES = {"q0": 4, "u0": 1}  # queues
AHEAD_NS, FRAMES = 300_000_000, 32
CONFIGURATION = """host: q
interfaces: [{{ name: q0 }}, {{ name: u0 }}]
pin_root: /sys/fs/bpf/pace-q
socket: {folder}/q.sock
kill_file: {folder}/q.off
"""
TEAR_DOWN = """[ -f {folder}/q.pid ] && kill $(cat {folder}/q.pid)
sleep 1
escapementd --remove -c {folder}/q.yaml
kill $(cat {folder}/q0.pid {folder}/u0.pid)
rm -rf {folder}
"""


def script():
    return f"python3 {state.guest(world.GUEST)['share']}/guest/queues.py"


def log_lines(device):
    return world.must(f"cat {world.FOLDER}/{device}.log").splitlines()[1:]


def passages(device, ahead_ns):
    """[(queue, ns until it left)] of FRAMES frames that were to leave @ahead_ns later."""
    known = len(log_lines(device))
    world.must(f"{script()} send {device} {FRAMES} {ahead_ns}")
    deadline = time.monotonic() + 10
    while len(log_lines(device)) < known + FRAMES and time.monotonic() < deadline:
        time.sleep(0.2)
    return [tuple(map(int, line.split())) for line in log_lines(device)[known:]]


def qdiscs(device):
    """{(place: kind)} of a device's qdiscs. A default one has no handle, one of ours has."""
    shown = json.loads(world.must(f"tc -j qdisc show dev {device}"))
    return sorted((row["kind"], row["handle"] if row.get("root") else "",
                   row.get("parent", "root").split(":")[-1])
                  for row in shown if row["kind"] != "clsact")


def start_daemon():
    world.must(f"cd {world.FOLDER}; setsid escapementd --foreground -c q.yaml >q.log 2>&1 "
              f"</dev/null & echo $! >{world.FOLDER}/q.pid")
    world.wait_started("q")


def set_up():
    daemon.install([world.GUEST])
    world.must(f"mkdir -p {world.FOLDER}; modprobe tun")
    for device, queues in DEVICES.items():
        world.must(f"setsid {script()} hold {device} {queues} {world.FOLDER}/{device}.log "
                  f"</dev/null >/dev/null 2>&1 & echo $! >{world.FOLDER}/{device}.pid; "
                  f"until grep -q ready {world.FOLDER}/{device}.log; do sleep 0.2; done")
    world.put("q.yaml", CONFIGURATION.format(folder=world.FOLDER).encode())


def put_fq():
    for device in DEVICES:
        world.query("q", "pace", "setup-fq", device)


def check_kept(tap, device, queues):
    """Every queue keeps departure times."""
    seen = passages(device, AHEAD_NS)
    early = [row for row in seen if row[1] < AHEAD_NS]
    tap.check(len(seen) == FRAMES and not early and len({row[0] for row in seen}) == queues,
              f"pace: fq on {device} keeps the departure times of {FRAMES} frames, "
              f"in each of its queues ({queues})", seen)


def check_before(tap, label, before):
    """The qdiscs are those that were there, and keep no departure times."""
    for device in DEVICES:
        shown, seen = qdiscs(device), passages(device, AHEAD_NS)
        tap.check(shown == before[device], f"{label}: {device} has the qdiscs that it had",
                  f"{before[device]}\n{shown}")
        tap.check(len(seen) == FRAMES and max(row[1] for row in seen) < AHEAD_NS,
                  f"{label}: {device} does not keep departure times", seen)


def check_set(tap):
    for device, queues in DEVICES.items():
        shown = qdiscs(device)
        want = [("fq", "", f"{i + 1:x}") for i in range(queues)] + [("mq", "e5c0:", "root")]
        tap.check(shown == (want if queues > 1 else [("fq", "e5c0:", "root")]),
                  f"pace: {device} with {queues} queues has an fq for each", shown)
        check_kept(tap, device, queues)
    able = {row["interface"]: row.get("reason", "") for row in paced_ports()}
    tap.check(able == {device: "" for device in DEVICES}, "pace: both can be paced", able)


def kill():
    """Its locks end with the process, which the kill does not wait for."""
    world.must(f"pid=$(cat {world.FOLDER}/q.pid); kill -KILL $pid; "
               "while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.1; done")


def operators(device):
    """The qdiscs with their options."""
    return world.must(f"tc qdisc show dev {device}")


def off():
    world.must(f"escapement --socket {world.FOLDER}/q.sock off --pin-root /sys/fs/bpf/pace-q "
               f"--kill-file {world.FOLDER}/q.off")


def check_operators(tap):
    """An operator's fq on one device stays, ours on the other goes."""
    world.must("tc qdisc replace dev u0 root handle 7: fq limit 30000 flow_limit 3000")
    before = {"u0": operators("u0"), "q0": qdiscs("q0")}
    start_daemon()
    put_fq()
    tap.check("e5c0:" in operators("q0") and before["u0"].splitlines()[0] in operators("u0"),
              "pace: setup-fq leaves an operator's fq as it is", operators("u0"))
    off()
    tap.equal({"u0": operators("u0"), "q0": qdiscs("q0")}, before, "`off` with the daemon leaves an operator's fq alone")
    world.query("q", "mode", "observe")
    put_fq()
    kill()
    off()
    tap.equal({"u0": operators("u0"), "q0": qdiscs("q0")}, before, "and so does `off` without a daemon")
    world.must(f"rm {world.FOLDER}/q.off; tc qdisc del dev u0 root")


def paced_ports():
    return world.query("q", "pace")["interfaces"]


def test_pace_undo(tap, folder):
    """Pacing: fq below mq, and on one queue; undone by undo-fq, `off`, and --remove after a SIGKILL; an operator's stays."""
    try:
        set_up()
        before = {device: qdiscs(device) for device in DEVICES}
        tap.check(before["q0"][0][0] != "fq" and ("mq", "0:", "root") in before["q0"],
                  "pace: a device with several queues has the kernel's mq", before)
        start_daemon()
        put_fq()
        check_set(tap)
        for device in DEVICES:
            world.query("q", "pace", "undo-fq", device)
        check_before(tap, "pace undo-fq", before)
        put_fq()
        kill()
        tap.check(qdiscs("q0") != before["q0"], "pace: fq outlives a daemon that is killed",
                  qdiscs("q0"))
        world.must(f"escapementd --remove -c {world.FOLDER}/q.yaml")
        check_before(tap, "--remove", before)
        check_operators(tap)
    finally:
        world.shell(TEAR_DOWN.format(folder=world.FOLDER))
