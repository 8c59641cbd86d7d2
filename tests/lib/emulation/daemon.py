# SPDX-License-Identifier: BSD-2-Clause
"""escapementd in the guests."""
import json
import os

from . import channel, machine, state
from .errors import VmError

START_SECONDS = 180  # the verifier is slow under emulation, and others may have the CPUs


def configuration(guest, options, top, members, key):
    """The YAML for a guest's one interface; options are extra keys of it, @top more of the file."""
    lines = [f"host: {guest['name']}", "interfaces:", "  - name: eth0", "    plane: backend"]
    lines += [f"    {key}: {value}" for key, value in sorted(options.items()) if value]
    lines += ["textfile: { directory: /var/lib/prometheus/node-exporter, interval: 1s }"]
    if members:
        lines += ["members: /etc/escapement/members.json"]
    if key:
        lines += ["key_file: /etc/escapement/fleet.key"]
    return "\n".join(lines) + "\n" + top


def give_file(guest, name, data):
    """Puts a file where guest/daemon finds it at the next start, or takes it away (None)."""
    path = os.path.join(guest["share"], name)
    if data is None:
        if os.path.exists(path):
            os.unlink(path)
        return
    with open(path, "wb") as file:
        file.write(data)


def control(name, verb, seconds=START_SECONDS):
    """guest/daemon start|stop|kill|restart in one guest."""
    guest = state.guest(name)
    result = channel.run(name, ["/bin/sh", f"{guest['share']}/guest/daemon", verb,
                                guest["share"]], seconds)
    if result.rc:
        raise VmError(f"guest {name}: escapementd {verb}: "
                      f"{(result.err or result.out).strip() or 'ran out of time'}")
    return result.out


def start(names, options=None, top="", members=None, key=None):
    """
    Copies the build's programs and a configuration into each guest and starts the daemon.

    @members: the list of the fleet, for a mesh; @key: its key.
    """
    for name in names:
        guest = state.guest(name)
        missing = machine.copy_programs(guest)
        if missing:
            raise VmError(f"{missing[0]} is not there: 'make' first, or set ESCAPEMENT_BUILD")
        with open(os.path.join(guest["share"], "escapement.yaml"), "w", encoding="utf-8") as file:
            file.write(configuration(guest, options or {}, top, members, key))
        give_file(guest, "members.json", members and json.dumps(members).encode())
        give_file(guest, "fleet.key", key)
    machine.each(lambda name: control(name, "start"), names)


def stop(names):
    machine.each(lambda name: control(name, "stop"), names)
