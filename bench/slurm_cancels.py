#!/usr/bin/env python3
"""Random ends of jobs under a real Slurm on simulated GPUs: how many GPUs are left changed when Slurm has them back.

    LOWGEAR_SLURM_ROOT=FOLDER LOWGEAR_BINARY=build/release/bin/lowgear LOWGEAR_NVML=build/release/simgpu/libnvidia-ml.so.1 \\
        LOWGEAR_LIBRARY=build/release/lib/liblowgear.so.1 bench/slurm_cancels.py [ENDS] [SEED]

As root; tests/deploy/slurm/make_root.sh makes FOLDER. Jobs of two users with one to four GPUs follow plans, several at once,
and end one after the other after a random time, also while they start: by scancel, by SIGKILL to all processes, to the
batch script or to a task, by requeue, by their own end, and with processes that outlive them; slurmd, slurmstepd or the agent
are killed on the way. After each end, and once no job has them, GPUs are compared with a new machine's by the simulation's own
record, which no agent is asked for. Prints one JSON object; ends with 1 where a GPU was left changed or a node was drained."""

import collections
import json
import os
import random
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/deploy/slurm"))
import own_root  # noqa: E402

own_root.enter()
from cluster import GPUS, Cluster, wait_until  # noqa: E402

JOB = f"/usr/bin/python3 {own_root.SOURCE}/tests/deploy/slurm/gpu_job.py"
LONG_S = 3600
AT_ONCE = 3
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")


class Study:
    def __init__(self, ends, seed):
        self.cluster, self.random, self.ends = Cluster(), random.Random(seed), ends
        self.running, self.by_way = {}, collections.Counter()  # running: GPUs by job
        self.left, self.drained, self.locked_at_end = [], 0, 0

    def submit(self):
        """A job on as many GPUs as are free, at most; its processes train for longer than the study lasts, or shortly."""
        gpus = self.random.randint(1, GPUS)
        escape = "--escape" if self.random.random() < 0.1 else ""
        seconds = 60 if escape else self.random.choice([1, 3, LONG_S, LONG_S, LONG_S])
        user = self.random.choice(list(own_root.USERS))
        job = self.cluster.submit(f"srun {JOB} {seconds} {escape}", f"--ntasks={gpus}", f"--gres=gpu:{gpus}", "--requeue",
                                  user=user)
        self.running[job] = gpus

    def pids(self, job, pattern):
        """Processes of a job by what /proc says of them."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if (f"SLURM_JOB_ID={job}\0".encode() in variables or f"[{job}." in command) and re.search(pattern, command):
                found.append(int(folder.name))
        return found

    def kill_processes(self, job, pattern):
        for pid in self.pids(job, pattern):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def end(self, job):
        ways = {"scancel": lambda: self.cluster.run(["scancel", job], check=False),
                "kill by scancel": lambda: self.cluster.run(["scancel", "--signal=KILL", "--full", job], check=False),
                "kill the batch script": lambda: self.kill_processes(job, "slurm_script"),
                "kill the tasks": lambda: self.kill_processes(job, "gpu_job.py"),
                "kill slurmstepd": lambda: self.kill_processes(job, r"^slurmstepd"),
                "requeue": lambda: self.cluster.run(["scontrol", "requeue", job], check=False)}
        way = self.random.choice(list(ways))
        self.wait_for_clocks()
        self.locked_at_end += len(self.cluster.changed())
        ways[way]()
        self.by_way[way] += 1
        around = self.random.random()
        if around < 0.1:
            self.cluster.kill("slurmd")
            time.sleep(self.random.uniform(0, 0.5))
            self.cluster.start_slurmd()
            self.by_way["and slurmd killed"] += 1
        elif around < 0.2:
            self.cluster.kill("agent")
            time.sleep(self.random.uniform(0, 0.5))
            self.cluster.start_agent()
            self.by_way["and the agent killed"] += 1
        if way in ("requeue", "kill slurmstepd", "kill the batch script", "kill the tasks"):
            self.cluster.run(["scancel", job], check=False)

    def wait_for_clocks(self):
        """In four of five ends some clocks are locked."""
        if self.random.random() < 0.8:
            end = time.monotonic() + 10
            while time.monotonic() < end and not self.cluster.changed():
                time.sleep(0.1)
        time.sleep(self.random.uniform(0, 1))

    def states(self):
        lines = self.cluster.run(["squeue", "--noheader", "--states=all", "--format=%i %T"]).stdout.splitlines()
        return {int(number): state for number, state in (line.split() for line in lines)}

    def forget_ended(self):
        """Once no job is there, every GPU is as it was; while there are some, at most as many as they have are changed."""
        before = self.states()
        changed = self.cluster.changed()
        for job in list(self.running):
            if before.get(job, "COMPLETED") in ENDED:
                del self.running[job]
        most = sum(self.running.values())
        if len(changed) > most:
            leases = self.cluster.agent("GET", "/v1/leases")["leases"]
            self.left.append({"changed": changed, "jobs_left": self.running.copy(), "leases": leases})
        if "drain" in self.cluster.node_state().lower():
            self.drained += 1
            self.cluster.run(["scontrol", "update", f"NodeName={own_root.NODE}", "State=RESUME"])

    def run(self):
        self.cluster.start()
        try:
            done = 0
            while done < self.ends:
                while len(self.running) < AT_ONCE:
                    self.submit()
                time.sleep(self.random.uniform(0, 0.5))
                self.forget_ended()
                states = self.states()
                candidates = [job for job in self.running if states.get(job) in ("RUNNING", "PENDING", "COMPLETING")]
                active = [job for job in candidates if states[job] == "RUNNING"]
                if not active:
                    continue
                self.end(self.random.choice(active))
                done += 1
                if done % 25 == 0:
                    self.let_all_end()
                    print(f"{done} ends, {len(self.left)} times GPUs left changed", file=sys.stderr, flush=True)
            self.let_all_end()
        finally:
            self.cluster.stop()

    def let_all_end(self):
        for user in own_root.USERS:
            self.cluster.run(["scancel", f"--user={user}"], check=False)
        wait_until(lambda: not self.cluster.run(["squeue", "--noheader"]).stdout, "no job is left")
        self.running.clear()
        self.forget_ended()

    def result(self):
        return {"ends": self.ends, "gpus_locked_when_ended": self.locked_at_end, "ways": dict(sorted(self.by_way.items())),
                "times_gpus_left_changed": len(self.left), "left": self.left, "times_drained": self.drained, "simulated": True}


def main():
    study = Study(int(sys.argv[1]) if len(sys.argv) > 1 else 200, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    study.run()
    result = study.result()
    print(json.dumps(result, indent=2))
    return 1 if study.left or study.drained else 0


if __name__ == "__main__":
    sys.exit(main())
