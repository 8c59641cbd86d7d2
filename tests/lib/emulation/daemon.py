# SPDX-License-Identifier: BSD-2-Clause
"""escapementd in the guests."""
import json
import os

from . import channel, machine, state
from .errors import VmError

KEY = bytes(range(16))  # of the fleet
START_SECONDS = 180  # the verifier is slow under emulation, and others may have the CPUs


def configuration(guest, options, top, members, key, more, textfile):
    """The YAML for a guest's eth0, of which @options are extra keys, and the interfaces @more; @top: more of the file; @textfile:
    its interval."""
    lines = [f"host: {guest['name']}", "interfaces:", "  - name: eth0", "    plane: backend"]
    lines += [f"    {key}: {value}" for key, value in sorted(options.items()) if value]
    lines += [f"  - name: {name}" for name in more]
    lines += [f"textfile: {{ directory: /var/lib/prometheus/node-exporter, interval: {textfile} }}"]
    if members:
        lines += ["members: /etc/escapement/members.json"]
    if key:
        lines += ["key_file: /etc/escapement/fleet.key"]
    return "\n".join(lines) + "\n" + top


def put_file(guest, name, data):
    """Puts a file where guest/daemon finds it at the next start or reload; None removes it. True if it changed."""
    path, before = os.path.join(guest["share"], name), None
    if os.path.exists(path):
        with open(path, "rb") as file:
            before = file.read()
    if before == data:
        return False
    if data is None:
        os.unlink(path)
    else:
        with open(path, "wb") as file:
            file.write(data)
    return True


def control(name, verb, seconds=START_SECONDS):
    """guest/daemon install|start|reload|stop|kill|restart in one guest."""
    guest = state.guest(name)
    result = channel.run(name, ["/bin/sh", f"{guest['share']}/guest/daemon", verb,
                                guest["share"]], seconds)
    if result.rc:
        raise VmError(f"guest {name}: escapementd {verb}: "
                      f"{(result.err or result.out).strip() or 'ran out of time'}")
    return result.out


def configure(name, options=None, top="", members=None, key=KEY, more=(), textfile="1s"):
    """
    Writes a guest's configuration for the next start or reload. True if it changed.

    @members: the list of the fleet, for a mesh; @key: its key, None: none; @more: names of interfaces beside eth0;
    @textfile: interval of the textfile.
    """
    guest = state.guest(name)
    files = {"escapement.yaml": configuration(guest, options or {}, top, members, key, more, textfile).encode(),
             "members.json": members and json.dumps(members).encode(), "fleet.key": key}
    return any([put_file(guest, file, data) for file, data in files.items()])


def share_programs(names):
    """Copies the build's programs into the shares."""
    for name in names:
        missing = machine.copy_programs(state.guest(name))
        if missing:
            raise VmError(f"{missing[0]} is not there: 'make' first, or set ESCAPEMENT_BUILD")


def install(names):
    """Copies the build's programs into each guest, for tests that start them without start()."""
    share_programs(names)
    machine.each(lambda name: control(name, "install"), names)


def start(names, **configuration_of):
    """Copies the build's programs and a configuration (see configure()) into each guest and starts the daemon."""
    share_programs(names)
    for name in names:
        configure(name, **configuration_of)
    machine.each(lambda name: control(name, "start"), names)


def reload(names, **configuration_of):
    """Gives daemons that run another configuration, which loads no program anew."""
    changed = [name for name in names if configure(name, **configuration_of)]
    machine.each(lambda name: control(name, "reload"), changed)


def stop(names):
    machine.each(lambda name: control(name, "stop"), names)
