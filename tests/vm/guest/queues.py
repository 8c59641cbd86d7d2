#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A device with several queues, and whether frames leave it when their departure time says.

queues.py hold NAME QUEUES FILE: a tap with so many queues, until it is ended; writes a line for
each frame of `send`: the queue that it came by, and the ns between being handed over and leaving.
queues.py send NAME COUNT AHEAD_NS: UDP in IPv4, each with other ports, to leave so much later.
"""
import fcntl
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE = 0x400454CA, 0x2, 0x1000, 0x100
SO_TXTIME = SCM_TXTIME = 61
CLOCK_MONOTONIC = 1
MARK = b"queues.py"
HEADERS = 14 + 20 + 8


def open_queue(name, queues):
    fd = os.open("/dev/net/tun", os.O_RDWR)
    flags = IFF_TAP | IFF_NO_PI | (IFF_MULTI_QUEUE if queues > 1 else 0)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    return fd


def hold(name, queues, path):
    fds = [open_queue(name, queues) for _ in range(queues)]
    os.system(f"ip link set {name} up")
    with open(path, "w", encoding="ascii") as out:
        print("ready", file=out, flush=True)
        while True:
            for fd in select.select(fds, [], [])[0]:
                frame, now = os.read(fd, 65536), time.monotonic_ns()
                if frame[HEADERS:HEADERS + len(MARK)] == MARK:
                    handed = struct.unpack_from("!Q", frame, HEADERS + len(MARK))[0]
                    print(fds.index(fd), now - handed, file=out, flush=True)


def frame_of(number, now):
    payload = MARK + struct.pack("!Q", now)
    udp = struct.pack("!HHHH", 2000 + 7 * number, 9, 8 + len(payload), 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number, 0, 64, 17, 0,
                     bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2)))
    return b"\xff" * 6 + b"\x02" + bytes(5) + b"\x08\x00" + ip + udp


def send(name, count, ahead_ns):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((name, 0x0800))
    link.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", CLOCK_MONOTONIC, 0))
    for number in range(count):
        now = time.monotonic_ns()
        when = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("Q", now + ahead_ns))]
        link.sendmsg([frame_of(number, now)], when)


def main():
    verb, name, number, last = sys.argv[1:]
    if verb == "hold":
        hold(name, int(number), last)
    else:
        send(name, int(number), int(last))


if __name__ == "__main__":
    main()
