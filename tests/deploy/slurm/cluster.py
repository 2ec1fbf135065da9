"""A cluster of one node: Debian's munged, slurmctld and slurmd, an agent, simulated GPUs. Only within own_root.enter()."""

import http.client
import json
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

from own_root import ADDRESS, GROUP, NODE, SOURCE

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

LOWGEAR = os.environ.get("LOWGEAR_BINARY", "")
SCRIPTS = SOURCE / "deploy/slurm"
GPUS = 4
AGENT_SOCKET = "/run/lowgear/agent.sock"
MACHINE = "/run/lowgear-simgpu/machine"

SLURM_CONF = f"""ClusterName=lowgear
SlurmctldHost={NODE}({ADDRESS})
AuthType=auth/munge
AuthInfo=cred_expire=5
SlurmUser=root
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
SlurmdDebug=verbose
SlurmdParameters=config_overrides
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdTimeout=600
KillWait=1
MinJobAge=3600
MaxJobCount=5000
ReturnToService=2
NodeName={NODE} NodeAddr={ADDRESS} CPUs=32 RealMemory=1000 Gres=gpu:h100:{GPUS} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
AGENT_CONFIG = f"""journal: /var/lib/lowgear
sockets:
  group: "{GROUP[0]}"
gpu:
  - id: all
allow:
  - group: "{GROUP[0]}"
    power: true
"""


class Cluster:
    """start() before anything else, stop() at last."""

    def __init__(self, lowgear_conf=None):
        """`lowgear_conf`: lines of slurm.conf by which Lowgear is part of it; default: deploy/slurm/lowgear.conf."""
        self.lines = lowgear_conf if lowgear_conf is not None else self.lowgear_lines()
        self.daemons = {}
        os.environ["LOWGEAR_SIMGPU"] = MACHINE
        os.environ["PATH"] = f"{Path(LOWGEAR).parent}:{os.environ['PATH']}"

    @staticmethod
    def lowgear_lines():
        """deploy/slurm/lowgear.conf, with the paths of the source tree."""
        text = (SCRIPTS / "lowgear.conf").read_text()
        return text.replace("/usr/share/lowgear/slurm", str(SCRIPTS))

    def start(self):
        self._write_files()
        if self.has_plugin():
            self._compile_plugin()
        self.run([LOWGEAR, "simgpu", "create", "--gpus", f"{GPUS}xH100", "--any-user"])
        self._daemon("munged", ["munged", "--foreground", "--force"])
        wait_until(lambda: subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0, "munge")
        self.start_agent()
        self._daemon("slurmctld", ["slurmctld", "-D"])
        self.start_slurmd()
        wait_until(lambda: self.node_state() == "IDLE", lambda: f"the node is idle: {self.logs()}")

    @staticmethod
    def has_plugin():
        """Whether the root can compile the SPANK plugin."""
        return Path("/usr/include/slurm/spank.h").exists()

    def _compile_plugin(self):
        plugin = "/run/spank_lowgear.so"
        self.run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", plugin, SCRIPTS / "spank_lowgear.c"])
        Path("/etc/slurm/plugstack.conf").write_text(f"required {plugin}\n")

    def stop(self):
        for name in reversed(list(self.daemons)):
            daemon = self.daemons[name]
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()

    def _write_files(self):
        for folder in ("state", "slurmd"):
            Path("/var/lib/slurm", folder).mkdir(parents=True, exist_ok=True)
        Path("/run/lowgear").mkdir(mode=0o755)
        Path(MACHINE).parent.mkdir()
        os.chmod(MACHINE.rpartition("/")[0], 0o1777)
        Path("/run/munge").mkdir()
        key = Path("/etc/munge/munge.key")
        key.touch(0o600)
        key.write_bytes(b"a key for tests only, of no value" * 4)
        devices = Path("/run/gpus")
        devices.mkdir()
        for gpu in range(GPUS):
            os.mknod(devices / f"nvidia{gpu}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # Slurm accepts devices alone
        Path("/etc/slurm/gres.conf").write_text(f"Name=gpu Type=h100 File=/run/gpus/nvidia[0-{GPUS - 1}]\n")
        Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # slurmd looks for one that it would not use
        Path("/etc/slurm/slurm.conf").write_text(SLURM_CONF + self.lines)
        config = Path("/etc/lowgear/agent.yaml")
        config.touch(0o600)
        config.write_text(AGENT_CONFIG)

    def _daemon(self, name, command):
        with open(f"/var/log/{name}.out", "ab") as log:
            self.daemons[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def start_agent(self):
        self._daemon("agent", [LOWGEAR, "agent", "--config", "/etc/lowgear/agent.yaml"])
        wait_until(self._agent_responds, lambda: f"the agent responds: {Path('/var/log/agent.out').read_text()}")

    def _agent_responds(self):
        try:
            return self.agent("GET", "/healthz")["status"] == "ok"
        except OSError:
            return False

    def start_slurmd(self):
        self._daemon("slurmd", ["slurmd", "-D", "-N", NODE])

    def kill(self, name, number=signal.SIGKILL):
        self.daemons[name].send_signal(number)
        self.daemons[name].wait()

    # --- commands ---

    def run(self, words, user=None, check=True, **environment):
        """Output of a command, as a user with the variables that a job needs here."""
        options = {}
        variables = {**os.environ, **environment}
        if user:
            entry = pwd.getpwnam(user)
            options = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [GROUP[1]], "cwd": entry.pw_dir}
            variables |= {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user}
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                                timeout=PATIENCE_S, env=variables, **options)
        if check and result.returncode != 0:
            raise AssertionError(f"{words} ended with {result.returncode}: {result.stdout}{result.stderr}")
        return result

    def submit(self, script, *options, user="alice", **environment):
        """Number of a batch job with this shell script, whose output is HOME/JOB.out."""
        path = Path(f"/home/{user}/job.sh")
        path.write_text(f"#!/bin/sh\n{script}\n")
        words = ["sbatch", "--parsable", "--output=%j.out", "--open-mode=append", "--mem=1", *options, path]
        return int(self.run(words, user, **environment).stdout)

    def job(self, number):
        """What `scontrol show job` says, by name."""
        text = self.run(["scontrol", "--oneliner", "show", "job", str(number)]).stdout
        fields = dict(re.findall(r"(?:^| )([A-Z][A-Za-z:/]*)=(.*?)(?= [A-Z][A-Za-z:/]*=|$)", text.strip()))
        return fields

    def wait_for_state(self, number, *states):
        return wait_until(lambda: self.job(number)["JobState"] in states and self.job(number),
                          lambda: f"job {number} is {states}: {self.job(number)}, {self.logs()}")

    def wait_for_end(self, number):
        """The job's fields, once it and its epilog have ended."""
        return self.wait_for_state(number, "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")

    def output(self, number, user="alice"):
        path = Path(f"/home/{user}/{number}.out")
        return path.read_text() if path.exists() else ""

    def node(self):
        text = self.run(["scontrol", "--oneliner", "show", "node", NODE]).stdout
        return dict(re.findall(r"(?:^| )([A-Z][A-Za-z]*)=(.*?)(?= [A-Z][A-Za-z]*=|$)", text.strip()))

    def node_state(self):
        result = self.run(["sinfo", "--noheader", "--format=%T", f"--nodes={NODE}"], check=False)
        return result.stdout.strip().upper()

    def logs(self):
        return "\n".join(Path(f"/var/log/{name}.log").read_text()[-3000:] for name in ("slurmctld", "slurmd")
                         if Path(f"/var/log/{name}.log").exists())

    # --- GPUs ---

    @staticmethod
    def agent(method, path, body=None):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(AGENT_SOCKET)
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def machine(self):
        """The true state of the simulated GPUs, which no agent is asked for."""
        return json.loads(self.run([LOWGEAR, "simgpu", "show", "--json"]).stdout)["gpus"]

    def changed(self):
        """Indices of GPUs that are not as a new machine has them."""
        return [index for index, gpu in enumerate(self.machine())
                if gpu["locked_sm_clocks_mhz"] is not None or gpu["power_limit_w"] != 700]
