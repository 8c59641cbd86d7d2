# SPDX-License-Identifier: BSD-2-Clause
"""perftest between two guests: the server first, the client when it listens."""
import concurrent.futures
import ipaddress
import os
import re
import threading

from . import channel, state
from .errors import VmError

DEVICE = "rxe0"
GIDS = f"/sys/class/infiniband/{DEVICE}/ports/1/gids"
FIRST_PORT = 18600
PORTS_AT_ONCE = 32
LISTEN_SECONDS = 60  # nice, beside daemons that start: more than 20 s was seen
# QP timeout 4.3 s and 16 deep queues: 67 ms, the default of perftest, is less than a busy emulated
# machine sometimes stalls, and causes retransmissions.
TIMEOUTS = ["-u", "20", "-t", "16"]
RESULT_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", re.MULTILINE)
QPN = re.compile(r"(local|remote) address: .*?QPN (0x[0-9a-f]+)")


def addresses(name):
    """{4: address, 6: address} of a guest."""
    guest = state.guest(name)
    return {4: ipaddress.ip_address(guest["address"]), 6: ipaddress.ip_address(guest["address6"])}


def gid_index(name, version, device=DEVICE, address=None):
    """Index of the guest's IPv4 or IPv6 address, or another one, in the device's GID table."""
    wanted = ipaddress.ip_address(address) if address else addresses(name)[version]
    gids = GIDS.replace(DEVICE, device)
    for line in channel.read(name, ["grep", "-H", "", *(f"{gids}/{i}" for i in range(8))]) \
            .splitlines():
        path, _, gid = line.partition(":")
        try:
            address = ipaddress.IPv6Address(gid)
        except ValueError:
            continue
        if address == wanted or address.ipv4_mapped == wanted:
            return int(os.path.basename(path))
    raise VmError(f"guest {name} has no GID for {wanted} on {device}")


def tool_argv(tool, gid, port, qps, extra, nice=0, device=DEVICE):
    argv = ["nice", "-n", str(nice), tool, "-d", device, "-x", str(gid), "-p", str(port), "-F"]
    if tool.endswith("_bw"):
        argv += ["-q", str(qps)]
    return argv + TIMEOUTS + list(extra)


def run(client, server, tool, qps=4, gid="v4", port=None, extra=(), seconds=120, nice=0,
        device=DEVICE, address=None, leave=None, under=()):
    """Runs one test. The addresses of the TCP exchange are always IPv4.

    `address`: a function of a guest's name, where the queue pairs have another address than eth0.

    `nice`: of both tools; they poll, and leave little of an emulated CPU to others.
    `leave`: a threading.Event that ends both.
    `under`: what comes before both commands, as env NAME=VALUE.
    """
    if not re.match(r"^ib_(send|write|read|atomic)_(bw|lat)$", tool):
        raise VmError(f"'{tool}' is not one of perftest's ib_{{send,write,read,atomic}}_{{bw,lat}}")
    version = {"v4": 4, "v6": 6}[gid]
    with state.Lock(os.path.join(state.ROOT, "perftest"), PORTS_AT_ONCE) as slot, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        port = port or FIRST_PORT + slot.number
        gids = list(pool.map(lambda name: gid_index(name, version, device,
                                                    address and address(name)), (server, client)))
        leave = leave or threading.Event()
        argv = [[*under, *tool_argv(tool, index, port, qps, extra, nice, device)] for index in gids]
        serving = pool.submit(channel.run, server, argv[0], seconds, leave=leave)
        if channel.wait_listen(server, port, LISTEN_SECONDS):
            active = channel.run(client, argv[1] + [str(addresses(server)[4])], seconds, leave=leave)
        else:
            active = channel.Result(1, "", f"{tool} on {server} does not listen on {port}\n")
        if active.rc:  # the server would wait for a client that is gone
            leave.set()
        passive = serving.result()
    return {"good": active.rc == 0 and passive.rc == 0,
            "client_output": active.out + active.err, "server_output": passive.out + passive.err,
            "summary": summary(tool, active, passive)}


def summary(tool, active, passive):
    """The row of the client's table; without it when there was no result."""
    found = {"tool": tool, "client_exit": active.rc, "server_exit": passive.rc}
    row = RESULT_ROW.search(active.out)
    if row and tool.endswith("_bw"):
        found.update(message_bytes=int(row.group(1)), messages=int(row.group(2)),
                     bandwidth=float(row.group(4)), messages_per_second=1e6 * float(row.group(5)))
    if active.rc:
        found["client_says"] = active.err.strip()[-200:]
    qpns = QPN.findall(active.out)
    found["client_qpns"] = [int(qpn, 16) for side, qpn in qpns if side == "local"]
    found["server_qpns"] = [int(qpn, 16) for side, qpn in qpns if side == "remote"]
    return found
