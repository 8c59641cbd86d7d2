# SPDX-License-Identifier: BSD-2-Clause
"""Debian's slurmctld and slurmd in one node of a lab, for the recipes of deploy/slurm. They are unpacked, not installed."""
import os
import socket
import time

import labtest

PACKAGES = {name: os.path.join(labtest.CACHE, name) for name in
            ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")}
PLUGINS = PACKAGES["slurm-wlm-basic-plugins"] + "/usr/lib/x86_64-linux-gnu/slurm-wlm"
CONTROLLER = PACKAGES["slurmctld"] + "/usr/sbin/slurmctld-wlm"
DAEMON = PACKAGES["slurmd"] + "/usr/sbin/slurmd-wlm"
STEP = PACKAGES["slurmd"] + "/usr/sbin/slurmstepd-wlm"
HEALTH_S = 2


def missing():
    """Why there is no Slurm here; None: there is."""
    return None if all(os.access(path, os.X_OK) for path in (CONTROLLER, DAEMON, STEP)) else \
        "slurmctld and slurmd are not here: make deps"


def common(folder):
    """What is alike in all configurations."""
    return f"""ClusterName=lab
SlurmctldHost={socket.gethostname().split(".")[0]}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
MpiDefault=none
SwitchType=switch/none
ReturnToService=0
PluginDir={PLUGINS}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
"""


def show_topology(lab, host, folder, nodes, topology):
    """What a controller of these nodes makes of the text of a topology.conf: lines of `scontrol show topology`."""
    os.makedirs(os.path.join(folder, "state"))
    name = socket.gethostname().split(".")[0]
    config = os.path.join(folder, "slurm.conf")
    with open(config, "w", encoding="ascii") as out:
        out.write(common(folder) + "TopologyPlugin=topology/tree\n" +
                  "".join(f"NodeName={node} NodeHostname={name} NodeAddr=127.0.0.1 Port={7000 + at} CPUs=1 State=UNKNOWN\n"
                          for at, node in enumerate(nodes)) + "PartitionName=all Nodes=ALL Default=YES State=UP\n")
    with open(os.path.join(folder, "topology.conf"), "w", encoding="ascii") as out:
        out.write(topology)
    env = ["env", f"SLURM_CONF={config}", f"LD_LIBRARY_PATH={PLUGINS}"]
    controller = lab.start(host, *env, CONTROLLER, "-D", "-f", config)
    scontrol = PACKAGES["slurm-client"] + "/usr/bin/scontrol"
    try:
        def shown():
            code, out, _ = lab.exec(host, *env, scontrol, "--oneliner", "show", "topology")
            return out.splitlines() if not code else None
        return labtest.wait_for(shown, 60, 0.5) or [controller.communicate(timeout=5)[1] if controller.poll() else "no reply"]
    finally:
        controller.terminate()
        controller.communicate(timeout=30)


class Cluster:
    """A cluster of one host that is also its controller. @recipe is HealthCheckProgram and Prolog; while there is a
    file `prolog_only` it is Prolog alone."""

    def __init__(self, lab, host, folder, recipe):
        self.lab, self.host, self.folder = lab, host, folder
        self.wrapper, self.config = folder + "/recipe", folder + "/slurm.conf"
        inside = lab.inside(host)
        self.env = {"SLURM_CONF": self.config, "LD_LIBRARY_PATH": PLUGINS,
                    "PATH": f"{inside['env']['PATH']}:{PACKAGES['slurm-client']}/usr/bin"}
        self.write(recipe)
        self.running = [self.daemon(CONTROLLER, "-D", "-f", self.config),
                        self.daemon(DAEMON, "-D", "-N", host, "-d", STEP, "-f", self.config)]

    def write(self, recipe):
        """slurmd gives these programs no environment but its own variables; the programs here are in other folders."""
        with open(self.wrapper, "w", encoding="ascii") as out:
            out.write("#!/bin/sh\n" + "".join(f"export {key}='{value}'\n" for key, value in self.env.items()) +
                      f"echo run >>'{self.folder}/runs'\n[ ! -e '{self.folder}/prolog_only' ] || "
                      f"[ -n \"$SLURM_JOB_ID\" ] || exit 0\nexec '{recipe}'\n")
        os.chmod(self.wrapper, 0o755)
        name = socket.gethostname().split(".")[0]
        with open(self.config, "w", encoding="ascii") as out:
            out.write(common(self.folder) + f"""HealthCheckProgram={self.wrapper}
HealthCheckInterval={HEALTH_S}
HealthCheckNodeState=ANY
Prolog={self.wrapper}
SchedulerParameters=nohold_on_prolog_fail
NodeName={self.host} NodeHostname={name} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
""")
        for sub in ("state", "spool"):
            os.makedirs(os.path.join(self.folder, sub), exist_ok=True)

    def daemon(self, *command):
        return self.lab.start(self.host, "env", *(f"{key}={value}" for key, value in self.env.items()), *command)

    def run(self, *command):
        """stdout of one of Slurm's commands."""
        return self.lab.good(self.host, "env", *(f"{key}={value}" for key, value in self.env.items()), *command)

    def node(self):
        """{"State", "Reason", ...} of the node."""
        text = self.run("scontrol", "--oneliner", "show", "node", self.host)
        found = dict(word.split("=", 1) for word in text.split(" Reason=")[0].split() if "=" in word)
        if " Reason=" in text:
            found["Reason"] = text.split(" Reason=", 1)[1].rsplit(" [", 1)[0].strip()
        return found

    def update(self, *words):
        self.run("scontrol", "update", f"NodeName={self.host}", *words)

    def checks(self):
        """How often the recipe has run."""
        path = self.folder + "/runs"
        return len(open(path, encoding="ascii").readlines()) if os.path.exists(path) else 0

    def wait_checks(self, more):
        """So many further runs begin; the one before the last has ended."""
        before = self.checks()
        return labtest.wait_for(lambda: self.checks() >= before + more, 15 * HEALTH_S * more, 0.2)

    def logs(self):
        text = ""
        for name in ("slurmctld.log", "slurmd.log"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    text += file.read()[-2000:]
        return text

    def close(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.communicate(timeout=30)
        time.sleep(0.1)
