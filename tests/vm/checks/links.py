# SPDX-License-Identifier: BSD-2-Clause
"""Short losses of a virtio NIC's carrier: what the guest's kernel counts is counted, in a daemon's restart too."""
import json
import random
import socket
import threading
import time

from emulation import channel, daemon, state
import labtest

from . import bench, cleanup

GUEST = bench.GUESTS[0]
FLAPS = 1000
SHORTEST_S, LONGEST_S = 0.001, 0.050
PATIENCE_S = 30


class Monitor:
    """One connection to a guest's QEMU, so that a command takes less than a flap."""

    def __init__(self, guest):
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(10)
        self.link.connect(f"{state.folder(guest)}/qmp.sock")
        self.file = self.link.makefile("rw")
        self.file.readline()
        self.run("qmp_capabilities")

    def run(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while "event" in json.loads(self.file.readline()):
            pass

    def close(self):
        self.file.close()
        self.link.close()


def kernel_counts():
    return [int(channel.read(GUEST, ["cat", f"/sys/class/net/eth0/carrier_{way}_count"])) for way in ("down", "up")]


def link():
    return next(one for one in bench.escapement(GUEST, "links")["links"] if one["netdev"] == "eth0")


def test_links(tap, folder):
    """1,000 losses of a virtio carrier of 1 to 50 ms, and a restart meanwhile: each that the kernel counts is counted."""
    cleanup.make_ready(top="links: { settle: 0s }\n")
    before, kernel = link(), kernel_counts()
    monitor, seed = Monitor(GUEST), int(time.strftime("%Y%m%d"))
    spans = random.Random(seed)
    restart = threading.Thread(target=daemon.control, args=(GUEST, "restart"))
    try:
        for number in range(FLAPS):
            monitor.run("set_link", name="nic0", up=False)
            time.sleep(spans.uniform(SHORTEST_S, LONGEST_S))
            monitor.run("set_link", name="nic0", up=True)
            time.sleep(spans.uniform(SHORTEST_S, LONGEST_S))
            if number == FLAPS // 4:
                restart.start()
        restart.join()
    finally:
        monitor.close()
    labtest.wait_for(lambda: link()["carrier_down_count"] == kernel_counts()[0], PATIENCE_S)
    after, counted = link(), link()["flaps"] - before["flaps"]
    shown = kernel_counts()[0] - kernel[0]
    tap.note(f"links: {FLAPS} flaps of {1000 * SHORTEST_S:.0f} to {1000 * LONGEST_S:.0f} ms, seed {seed}; the guest's "
             f"kernel was shown {shown}; counted {counted}")
    tap.equal(counted, shown, "links: each flap that the guest's kernel counts is counted")
    tap.check(shown >= FLAPS * 0.9, f"links: the device showed the guest nearly all of {FLAPS}", str(shown))
    tap.check(after.get("alarm", {}).get("kind") == "flapping", "links: and they raise the alarm", str(after))
    channel.read(GUEST, ["escapement", "links", "ack", "eth0"])
