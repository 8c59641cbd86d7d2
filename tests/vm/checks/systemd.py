# SPDX-License-Identifier: BSD-2-Clause
"""The package under systemd as init: installed, confined, rebooted, upgraded, removed."""
import json
import os
import shutil
import time

import debpkg
from emulation import channel, machine, state

GUEST, LEAF = "S", "leaf1"
START_SECONDS = 300
UNIT = "escapementd.service"
CONFIGURATION = """host: S
interfaces: [{ name: eth0 }]
textfile: { directory: /var/lib/prometheus/node-exporter, interval: 1s }
"""
MEMBER, OTHER = 4242, 4243  # users; the first one is in the group


def run(command, seconds=60):
    return channel.run(GUEST, ["sh", "-c", command], seconds)


def good(command, seconds=60):
    return channel.read(GUEST, ["sh", "-c", command], seconds)


def show(*names):
    """{property: value} of the unit."""
    text = good(f"systemctl show {UNIT} -p " + ",".join(names))
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def shown(verb):
    return json.loads(good(f"escapement -j {verb}"))


def is_attached():
    port = shown("status")["interfaces"][0]
    return port["attach"] != "none" and port["tc"] != "none"


def programs():
    """The ids of XDP programs on the interface."""
    return [word for line in good("ip -d link show eth0").splitlines() if "prog/xdp" in line for word in line.split()]


def install(*paths):
    """dpkg -i of packages, through the share."""
    share = state.guest(GUEST)["share"]
    for path in paths:
        shutil.copy(path, share)
    names = " ".join(os.path.join(share, os.path.basename(path)) for path in paths)
    return good(f"dpkg --force-unsafe-io -i {names} 2>&1", START_SECONDS)


def wait_active(seconds=START_SECONDS):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        current = show("ActiveState", "SubState")
        if current == {"ActiveState": "active", "SubState": "running"}:
            return True
        if current["ActiveState"] == "failed":
            return False
        time.sleep(0.5)
    return False


def journal():
    return run(f"journalctl --no-pager -n 40 -u {UNIT}").out


def check_installed(tap, packages):
    out = install(packages["escapement"], packages["libescapement0"])
    current = show("UnitFileState", "ActiveState", "ConditionResult")
    tap.check(current["UnitFileState"] == "enabled" and current["ActiveState"] == "inactive",
              "systemd: the package enables the unit; without a configuration it does not start", f"{out}{current}")
    tap.check(run("getent group escapement").rc == 0, "systemd: there is a group escapement")
    good("mkdir -p /etc/escapement /var/lib/prometheus/node-exporter "
         f"/etc/systemd/system/{UNIT}.d; cat >/etc/escapement/escapement.yaml <<'E'\n{CONFIGURATION}E\n"
         f"printf '[Service]\\nTimeoutStartSec={START_SECONDS}\\n' >/etc/systemd/system/{UNIT}.d/slow.conf; "
         "systemctl daemon-reload")
    good(f"systemctl start {UNIT}", START_SECONDS)
    tap.check(wait_active() and is_attached(), "systemd: it starts, and its programs are attached", journal())


def check_sandbox(tap):
    """What the unit takes away, and that it is nothing that the daemon needs."""
    process = show("MainPID", "MemoryCurrent", "TasksCurrent")
    fields = dict(line.split(":", 1) for line in good(f"cat /proc/{process['MainPID']}/status").splitlines())
    tap.check(int(fields["CapBnd"], 16).bit_count() == 5 and fields["NoNewPrivs"].strip() == "1" and
              fields["Seccomp"].strip() == "2", "systemd: five capabilities, no new privileges, a system call filter",
              {name: fields[name] for name in ("CapBnd", "NoNewPrivs", "Seccomp")})
    core = [line for line in good(f"cat /proc/{process['MainPID']}/limits").splitlines() if "core file" in line]
    tap.check(core and core[0].split()[4:6] == ["0", "0"], "systemd: no core", core)
    inside = {row["name"]: row["supported"] for row in shown("features")["features"]}
    outside = {row["name"]: row["supported"] for row in json.loads(good(
        "escapement -j --socket /run/none features"))["features"]}
    tap.equal(inside, outside, "systemd: the sandbox takes no feature")
    tracing = shown("status").get("qp_tracing")
    tap.check("fentry" in json.dumps(tracing), "systemd: queue pairs are traced by fentry", tracing)
    tap.check(run("test -s /var/lib/prometheus/node-exporter/escapement.prom").rc == 0, "systemd: metrics are written")
    errors = run(f"journalctl --no-pager -p warning -u {UNIT} _COMM=escapementd").out
    tap.check("ermission denied" not in errors and "not permitted" not in errors, "systemd: nothing was refused", errors)
    tap.note(f"memory {int(process['MemoryCurrent']) >> 20} MiB, tasks {process['TasksCurrent']}")


def check_access(tap):
    """Users without root."""
    group = good("getent group escapement").split(":")[2]
    member = f"setpriv --reuid={MEMBER} --regid={MEMBER} --groups={group} escapement"
    other = f"setpriv --reuid={OTHER} --regid={OTHER} --clear-groups escapement"
    result = run(f"{member} status")
    tap.check(result.rc == 0 and "Host" in result.out, "systemd: a member of the group may read", result)
    result = run(f"{member} off")
    tap.check(result.rc == 4 and "needs root" in result.err and is_attached(),
              "systemd: but not switch anything", result)
    result = run(f"{other} status")
    tap.check(result.rc == 4 and "group escapement" in result.err, "systemd: others may not, and are told why", result)


def check_serve(tap):
    """HTTP, off at first, in the sandbox of its unit."""
    tap.equal(good("systemctl show escapement-serve -p ActiveState,UnitFileState").split(),
              ["ActiveState=inactive", "UnitFileState=disabled"], "systemd: escapement-serve is off by default")
    good("systemctl start escapement-serve")
    fetch = "curl -s -f --max-time 60 --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:9470"
    result = run(f"{fetch}/api/v1/status", 200)
    tap.check(result.rc == 0 and json.loads(result.out)["host"] == "S", "systemd: it serves when it is started",
              (result, run("journalctl --no-pager -n 20 -u escapement-serve").out))
    tap.check("\nescapement_up 1\n" in run(f"{fetch}/metrics", 200).out, "systemd: metrics, too")
    status = good("cat /proc/$(systemctl show --value -p MainPID escapement-serve)/status")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    tap.check(int(fields["CapEff"], 16) == 0 and fields["Uid"].split()[0] != "0" and fields["NoNewPrivs"].strip() == "1" and
              fields["Seccomp"].strip() == "2", "systemd: as a user without capabilities, confined", status)
    good("systemctl stop escapement-serve")


def check_journal(tap):
    text = run("journalctl --no-pager -o json -t escapementd ESCAPEMENT_KIND=daemon_started").out
    entries = [json.loads(line) for line in text.splitlines()]
    tap.check(entries and entries[0]["PRIORITY"] == "5" and json.loads(entries[0]["ESCAPEMENT_SEEN"])["version"] and
              len(entries[0]["MESSAGE_ID"]) == 32, "systemd: an event is an entry of the journal, with fields", text)
    out = run(f"journalctl --no-pager -x -t escapementd MESSAGE_ID={entries[0]['MESSAGE_ID']}").out if entries else ""
    tap.check("The daemon serves." in out, "systemd: the catalogue has its text", out)


def check_reboot(tap):
    first = json.loads(good("escapement -j events").splitlines()[0])
    machine.reboot(GUEST, tap.note)
    tap.check(wait_active() and is_attached(), "systemd: it starts at boot", journal())
    events = [json.loads(line) for line in good("escapement -j events").splitlines()]
    starts = [event for event in events if event["kind"] == "daemon_started"]
    tap.check(len(starts) == 2 and first in events, "systemd: events from before the reboot are shown",
              [event["kind"] for event in events])
    tap.check(not shown("status")["kill_switch"], "systemd: a reboot in order is no crash during the start")


def check_upgrade(tap, package):
    pid, before = show("MainPID")["MainPID"], programs()
    install(package)
    tap.check(wait_active() and show("MainPID")["MainPID"] != pid and is_attached(),
              "systemd: an upgrade restarts the daemon", journal())
    events = [json.loads(line) for line in good("escapement -j events").splitlines()]
    tap.check(before and programs() and [event for event in events if event["kind"] == "daemon_started"][-1]["done"]
              ["taken_over"], "systemd: it takes over what stayed attached", events[-4:])


def check_removed(tap):
    out = good("dpkg -r escapement 2>&1", START_SECONDS)
    left = run("ip -d link show eth0 | grep prog/xdp; tc filter show dev eth0 ingress; ls /sys/fs/bpf/escapement").out
    tap.check(not left and run("pidof escapementd").rc, "systemd: the removal leaves no program, pin or process",
              out + left)
    tap.check(run("test -e /var/log/escapement/events.jsonl").rc == 0, "systemd: the events stay")
    good("dpkg -P escapement 2>&1", START_SECONDS)
    tap.check(run("ls /var/log/escapement /var/lib/escapement /lib/systemd/system/escapementd.service").out == "",
              "systemd: until it is purged")


def test_systemd(tap, folder):
    """the Debian package under systemd: sandbox, group, journal; reboot, upgrade, removal"""
    packages = debpkg.build(os.path.join(folder, "deb"), state.BUILD)
    newer = debpkg.later(packages["escapement"], folder, "0.1.0+upgrade")
    machine.DISK_GUESTS.add(GUEST)
    try:
        guest = machine.up([(GUEST, LEAF)], None, tap.note)[0]
        tap.note(f"systemd booted in {guest['boot_seconds']} s")
        check_installed(tap, packages)
        check_sandbox(tap)
        check_access(tap)
        check_serve(tap)
        check_journal(tap)
        check_reboot(tap)
        check_upgrade(tap, newer)
        check_removed(tap)
    finally:
        machine.down([GUEST])
