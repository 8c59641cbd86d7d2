# SPDX-License-Identifier: BSD-2-Clause
"""tcpdump on a guest's tap, in the leaf: both directions, headers only, nothing lost."""
import os
import re
import signal
import subprocess
import time

from . import state
from .errors import VmError

SNAP_BYTES = 128  # Ethernet to the last RoCEv2 extension header, IPv6 and two VLAN tags included
BUFFER_KIB = 131072
FILTER = "udp port 4791"
START_SECONDS = 10
DRAIN_SECONDS = 20
FLOWING_SECONDS = 1  # without an end of the packets by then, those so far are enough
COUNTS = re.compile(r"(\d+) packets? captured\D+(\d+) packets? received by filter\D+"
                    r"(\d+) packets? dropped by kernel")


def record_path(name):
    return os.path.join(state.folder(name), "capture.json")


def start(name, path):
    """Starts a capture of the guest's RoCEv2 into a pcap file; returns when it listens."""
    guest = state.guest(name)
    if os.path.exists(record_path(name)):
        raise VmError(f"a capture of {name} runs already: 'vm capture {name} stop'")
    log = os.path.join(state.folder(name), "tcpdump.log")
    argv = state.in_netns(guest["netns"], ["tcpdump", "-i", guest["tap"], "-n", "-Z", "root",
                                           "-s", str(SNAP_BYTES), "-B", str(BUFFER_KIB),
                                           "-w", os.path.abspath(path), FILTER])
    with open(log, "wb") as out:
        tcpdump = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   start_new_session=True)
    record = dict(state.process_record(tcpdump.pid), file=os.path.abspath(path), log=log)
    state.write_json(record_path(name), record)
    deadline = time.monotonic() + START_SECONDS
    while "listening on" not in read_log(log):
        if tcpdump.poll() is not None or time.monotonic() > deadline:
            abandon(name)
            raise VmError(f"tcpdump does not start on {guest['tap']}: {read_log(log).strip()}")
        time.sleep(0.02)


def read_log(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


def counts_of(text):
    found = COUNTS.findall(text.replace("\n", ", "))
    return [int(word) for word in found[-1]] if found else None


def drain(record):
    """
    Waits until tcpdump has written all that the kernel delivered; while packets go on to come, all until
    this call and a little more. SIGUSR1 makes it print both counts.
    """
    begun = time.monotonic()
    deadline, before, first = begun + DRAIN_SECONDS, None, None
    while time.monotonic() < deadline:
        os.kill(record["pid"], signal.SIGUSR1)
        time.sleep(0.1)
        counts = counts_of(read_log(record["log"]))
        if counts and counts[0] == counts[1] and counts == before:
            return
        if first and counts[0] >= first[1] and time.monotonic() > begun + FLOWING_SECONDS:
            return
        first, before = first or counts, counts


def stop(name):
    """Ends the capture. Returns {"file", "packets", "received", "dropped"}."""
    if not os.path.exists(record_path(name)):
        raise VmError(f"no capture of {name} runs: 'vm capture {name} start FILE'")
    record = state.read_json(record_path(name))
    if state.alive(record):
        drain(record)
    state.end_process(record, signal.SIGINT)
    os.unlink(record_path(name))
    counts = counts_of(read_log(record["log"]))
    if not counts:
        raise VmError(f"tcpdump ended without its counts: {read_log(record['log']).strip()}")
    return {"file": record["file"], "packets": counts[0], "received": counts[1],
            "dropped": counts[2]}


def abandon(name):
    """Ends a capture whose counts are not needed."""
    if os.path.exists(record_path(name)):
        state.end_process(state.read_json(record_path(name)), signal.SIGINT)
        os.unlink(record_path(name))
