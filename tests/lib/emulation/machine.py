# SPDX-License-Identifier: BSD-2-Clause
"""Guests come up and go down: a tap on a leaf, QEMU in the leaf's namespace."""
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time

import undo

from . import capture, channel, image, state
from .errors import VmError

GUEST_FILES = os.path.join(state.TOP, "tests", "vm", "guest")
PROGRAMS = ("escapementd", "escapement", "libescapement-verbs.so")
# Not `max`: with that model QEMU 7.2 now and then loses EFLAGS (they hold another register's bits),
# interrupts come where they are off, and the kernel panics. Under load with BPF programs coming and
# going that took some 25 loads; with this model 96 made none, then a day of many loads four, three
# of them in the allocator's fast path: it uses cmpxchg16b, and the flags held what that compares.
# Told not to use it (141 is X86_FEATURE_CX16), the kernel compares by itself; Open MPI needs it.
CPU = "Nehalem"
CPUS = {}  # of guests that need more than one, by name
RTC = {}  # date of the hardware clock at the boot, by name: those that have another one than the host's
DISK_MIB = 2048
DISK_GUESTS = set()  # names of guests with a disk, of which systemd is init
MEMORY_MIB = 1024
BOOT_SECONDS = 180  # 7 s alone; 58 s was seen with other work on both CPUs
BOOT_TRIES = 2  # an emulated boot panics once in a great while
READY = b"ESCAPEMENT-VM-READY"
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454ca, 0x2, 0x1000, 0x4000
# UC and UD have no window: what the sender has more than the emulated receiver takes waits here.
TAP_QUEUE_PACKETS = 50000


def parse_places(words):
    """[(guest, leaf)] from words like A:leaf1, or A:leaf1+leaf2 for two NICs."""
    places = []
    for word in words:
        name, colon, leaf = word.partition(":")
        if not colon or not leaf or not state.NAME.match(name):
            raise VmError(f"'{word}' is not GUEST:LEAF such as A:leaf1 "
                          "(a guest's name: a letter, then at most 7 letters or digits)")
        if name in [place[0] for place in places]:
            raise VmError(f"guest {name} is named twice")
        places.append((name, leaf))
    return places


def up(places, mtu, report):
    """Boots the guests side by side. All are up, or an error and those that failed are gone."""
    for name, _ in places:
        if os.path.exists(state.folder(name)):
            if guest_runs(name):
                raise VmError(f"guest {name} runs already in lab {state.LAB}: 'vm down {name}'")
            down([name])
    files = image.prepare(report)
    undo.register("env", f"LAB={state.LAB}", os.path.join(state.TOP, "tests/vm/vm"), "down")
    guests = []
    try:
        for name, leaf in places:
            guests.append(make_guest(name, leaf, mtu, files))
        each(lambda guest: boot(guest, files, report), guests)
    except BaseException:
        down([name for name, _ in places])
        raise
    return guests


def each(function, things):
    """Does it to all at once; the first error is raised when all have ended."""
    if things:
        with concurrent.futures.ThreadPoolExecutor(len(things)) as pool:
            return list(pool.map(function, things))
    return []


def make_guest(name, leaf, mtu, files):
    """Makes the folder, the tap and the share of a guest that is not booted yet."""
    folder = state.folder(name)
    os.makedirs(os.path.join(folder, "share/bin"))
    leaf, _, second_leaf = leaf.partition("+")
    guest = json.loads(state.lab("tap", leaf, name))
    guest.update(name=name, leaf=leaf, share=os.path.join(folder, "share"))
    if second_leaf:
        guest["second"] = json.loads(state.lab("tap", second_leaf, f"{name}.2"))
    state.write_json(os.path.join(folder, "guest.json"), guest)
    if mtu and mtu > guest["mtu"]:
        raise VmError(f"the lab's links take {guest['mtu']} bytes, not {mtu}: 'lab up --mtu {mtu}'")
    guest["mtu"] = mtu or guest["mtu"]
    subprocess.run(state.in_netns(guest["netns"], ["ip", "link", "set", guest["tap"],
                                                   "txqueuelen", str(TAP_QUEUE_PACKETS)]),
                   check=True)
    shutil.copytree(GUEST_FILES, os.path.join(guest["share"], "guest"))
    copy_programs(guest)
    if name in DISK_GUESTS:
        make_disk(os.path.join(folder, "disk.img"))
    with open(os.path.join(guest["share"], "env"), "w", encoding="utf-8") as file:
        file.write(f'NAME={name}\nMTU={guest["mtu"]}\nMODULES="{files.modules}"\n'
                   f'ADDRESSES="{" ".join(addresses(guest))}"\n'
                   f'GATEWAYS="{guest["gateway"]} {guest["gateway6"]}"\n'
                   f'GATEWAY_MAC={guest["gateway_mac"]}\n')
        if second_leaf:
            second = guest["second"]
            file.write(f'ADDRESSES2="{" ".join(addresses(second))}"\n'
                       f'GATEWAYS2="{second["gateway"]} {second["gateway6"]}"\n'
                       f'GATEWAY_MAC2={second["gateway_mac"]}\n')
    state.write_json(os.path.join(folder, "guest.json"), guest)
    return guest


def make_disk(path):
    """A sparse file with an empty ext4."""
    with open(path, "wb") as file:
        file.truncate(DISK_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=1", path], check=True)


def addresses(guest):
    """The guest's IPv4 and IPv6 address with their prefixes."""
    return [f"{guest['address']}/{guest['prefix']}", f"{guest['address6']}/{guest['prefix6']}"]


def copy_programs(guest):
    """Puts the build's programs into the share. Returns those that the build does not have."""
    missing = []
    for program in PROGRAMS:
        source = os.path.join(state.BUILD, program)
        target = os.path.join(guest["share"], "bin", program)
        if os.path.exists(source):
            shutil.copy(source, target + ".new")
            os.rename(target + ".new", target)
        else:
            missing.append(source)
    return missing


def open_tap(tap):
    """A descriptor of a tap in another leaf's namespace than the one that QEMU runs in."""
    def inside():
        with open(f"/run/netns/{tap['netns']}", encoding="ascii") as netns:
            if ctypes.CDLL(None, use_errno=True).setns(netns.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {tap['netns']}")
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", tap["tap"].encode(),
                                               IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
        return fd
    # The namespace is the thread's, which ends with it.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(inside).result()


def qemu_argv(guest, files, second_fd=None):
    folder = state.folder(guest["name"])
    argv = ["qemu-system-x86_64", "-name", f"escapement-{state.LAB}-{guest['name']}",
            "-accel", "tcg,thread=multi", "-cpu", CPU, "-m", str(MEMORY_MIB),
            "-smp", str(CPUS.get(guest["name"], 1)),
            "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", f"file:{folder}/console.log",
            "-kernel", files.kernel, "-initrd", files.initramfs,
            "-append", "console=ttyS0 panic=-1 oops=panic mitigations=off quiet net.ifnames=0 clearcpuid=141 no_timer_check "
                       f"escapement_share={guest['share']}",
            "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=host",
            "-fsdev", f"local,id=share,path={guest['share']},security_model=none",
            "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
            "-device", "virtio-serial-pci",
            "-netdev", f"tap,id=net,ifname={guest['tap']},script=no,downscript=no",
            "-device", f"virtio-net-pci,id=nic0,netdev=net,mac={guest['mac']},romfile=",
            "-qmp", f"unix:{folder}/qmp.sock,server=on,wait=off"]
    if guest["name"] in RTC:
        argv += ["-rtc", f"base={RTC[guest['name']]}"]
    if guest["name"] in DISK_GUESTS:
        argv[argv.index("-append") + 1] += " guest_init=systemd systemd.show_status=0"
        argv += ["-drive", f"file={folder}/disk.img,format=raw,if=none,id=disk,cache=unsafe",
                 "-device", "virtio-blk-pci,drive=disk"]
    if second_fd is not None:
        argv += ["-netdev", f"tap,id=net2,fd={second_fd}", "-device",
                 f"virtio-net-pci,id=nic1,netdev=net2,mac={guest['second']['mac']},romfile="]
    for number in range(channel.PORTS):
        argv += ["-chardev", f"socket,id=port{number},server=on,wait=off,"
                             f"path={channel.socket_path(guest['name'], number)}",
                 "-device", f"virtserialport,chardev=port{number},name=port{number}"]
    return argv


def boot(guest, files, report):
    """Boots one guest and waits until its agent listens."""
    name, folder = guest["name"], state.folder(guest["name"])
    started = time.monotonic()
    for attempt in range(BOOT_TRIES):
        second_fd = open_tap(guest["second"]) if "second" in guest else None
        with open(os.path.join(folder, "qemu.log"), "wb") as log:
            qemu = subprocess.Popen(state.in_netns(guest["netns"],
                                                   qemu_argv(guest, files, second_fd)),
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True,
                                    pass_fds=[] if second_fd is None else [second_fd])
        if second_fd is not None:
            os.close(second_fd)
        guest["qemu"] = state.process_record(qemu.pid)
        state.write_json(os.path.join(folder, "guest.json"), guest)
        fault = wait_ready(qemu, folder)
        if not fault:
            guest["boot_seconds"] = round(time.monotonic() - started, 1)
            state.write_json(os.path.join(folder, "guest.json"), guest)
            return
        state.end_process(guest["qemu"])
        report(f"guest {name} {fault}" + (": once more" if attempt + 1 < BOOT_TRIES else ""))
    raise VmError(f"guest {name} {fault}; its last lines:\n{last_lines(folder)}")


def reboot(name, report, seconds=120):
    """Reboots a guest with a disk: its QEMU ends with it, and is started again."""
    guest = state.guest(name)
    with contextlib.suppress(VmError):  # the channel may close before the command has ended
        channel.run(name, ["systemctl", "reboot"], 20)
    deadline = time.monotonic() + seconds
    while state.alive(guest["qemu"]):
        state.reap(guest["qemu"]["pid"])
        if time.monotonic() > deadline:
            raise VmError(f"guest {name} has not shut down after {seconds} s; its last lines:\n"
                          f"{last_lines(state.folder(name))}")
        time.sleep(0.1)
    os.unlink(os.path.join(state.folder(name), "console.log"))  # it has the mark of the earlier boot
    boot(guest, image.prepare(report), report)


def monitor(guest, command, **arguments):
    """One command to a guest's QEMU."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(10)
        link.connect(os.path.join(state.folder(guest), "qmp.sock"))
        file = link.makefile("rw")
        file.readline()
        for request in ({"execute": "qmp_capabilities"},
                        {"execute": command, "arguments": arguments}):
            file.write(json.dumps(request) + "\n")
            file.flush()
            while "event" in (answer := json.loads(file.readline())):
                pass
    if "error" in answer:
        raise VmError(f"guest {guest}: {command}: {answer['error']['desc']}")


def set_link(name, number, up):
    """The carrier of a guest's NIC: eth0 is number 0."""
    monitor(name, "set_link", name=f"nic{number}", up=up)


def wait_ready(qemu, folder):
    """None when the agent is there, else what happened."""
    console = os.path.join(folder, "console.log")
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        if qemu.poll() is not None:
            return f"ended during its boot (QEMU exit {qemu.returncode})"
        if os.path.exists(console):
            with open(console, "rb") as file:
                if READY in file.read():
                    return None
        time.sleep(0.05)
    return f"was not ready after {BOOT_SECONDS} s"


def last_lines(folder):
    lines = []
    for log in ("qemu.log", "console.log"):
        path = os.path.join(folder, log)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                lines += [line.rstrip() for line in file.readlines()[-15:]]
    return "\n".join(lines[-20:])


def guest_runs(name):
    try:
        return state.alive(state.guest(name)["qemu"])
    except (VmError, KeyError):
        return False


def down(names):
    """Ends the guests' QEMUs and captures, removes their taps and state. Others are not touched."""
    for name in names:
        folder = state.folder(name)
        try:
            guest = state.guest(name)
        except VmError:
            guest = {}
        capture.abandon(name)
        if "qemu" in guest:
            state.end_process(guest["qemu"], signal.SIGTERM)
        if guest:
            with contextlib.suppress(VmError):  # the lab went down before us
                state.lab("untap", guest["leaf"], guest["tap"])
                if "second" in guest:
                    state.lab("untap", guest["second"]["leaf"], guest["second"]["tap"])
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(state.ROOT) and not state.names():
        shutil.rmtree(state.ROOT, ignore_errors=True)
        with contextlib.suppress(OSError):  # another lab has guests
            os.rmdir(os.path.dirname(state.ROOT))


def status():
    rows = []
    for name in state.names():
        try:
            guest = state.guest(name)
        except VmError:
            continue
        rows.append({"name": name, "leaf": guest["leaf"], "running": guest_runs(name),
                     "address": guest["address"], "address6": guest["address6"],
                     "mtu": guest["mtu"], "mac": guest["mac"],
                     "netns": guest["netns"], "tap": guest["tap"],
                     "pid": guest.get("qemu", {}).get("pid"),
                     "boot_seconds": guest.get("boot_seconds")})
    return rows
