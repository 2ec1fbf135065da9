#!/usr/bin/env python3
"""Three jobs of different size on simulated GPUs under one power budget, which falls by 20 % and rises again.

    examples/demo/cluster.py [--port P] [--iterations N] [--out FOLDER] [BUILD_FOLDER]

The server profiles and plans the jobs. Then they get a budget of 80 % of what their plans draw: the server moves all of
them along their frontiers such that they lose the least training, and gives the power back when the budget rises. The
training is real and runs on the CPU; the GPUs are simulated. The address of the dashboard is printed. Needs no root.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from narration import Narration, invalid_text, say

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from server_process import Server  # noqa: E402: the examples are no package
from simulated_machine import Machine, end_all, end_with, fresh_folder, name_warnings  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = ROOT / "examples" / "closed-loop" / "job.yaml"
PROFILE = {"clocks": 5, "iterations": 1, "settle_iterations": 1, "min_mhz": 885}
JOBS = {"small": {"pp": 1, "layers": 4, "microbatches": 4}, "deep": {"pp": 3, "layers": 6, "microbatches": 6},
        "wide": {"pp": 2, "layers": 8, "microbatches": 5}}
UNIT_SCALE = 2.5  # units that are longer than what this machine takes to compute them
FALL = 0.8
FOREVER = 1_000_000_000


class Fleet:
    """The jobs, and what the server says of them."""

    def __init__(self, machine, server, out):
        self.server = server
        self.narration = Narration()
        self.trainings = []
        first_gpu = 0
        for name, shape in JOBS.items():
            gpus = ",".join(str(first_gpu + rank) for rank in range(shape["pp"]))
            first_gpu += shape["pp"]
            settings = {"parallel.pp": shape["pp"], "model.layers": shape["layers"],
                        "microbatches": shape["microbatches"], "server.profile": json.dumps(PROFILE),
                        "server.name": name, "simulated_gpu.layer_forward_s": 0.03 * UNIT_SCALE}
            words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            self.trainings.append(subprocess.Popen(
                [machine.lowgear, "train", str(JOB), "--steps", str(FOREVER), "--server", f"unix:{server.socket}",
                 "--metrics", str(out / f"{name}.jsonl"), *words],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": gpus, "OMP_NUM_THREADS": "1"},
                stdout=open(out / f"{name}.txt", "w", encoding="utf-8"), stderr=subprocess.STDOUT, process_group=0))

    def jobs(self):
        for name, training in zip(JOBS, self.trainings):
            if training.poll() is not None:
                raise SystemExit(f"the job {name} has ended with {training.returncode}")
        return sorted(self.server.get("/v1/jobs")["jobs"], key=lambda job: job["name"])

    def wait_for(self, condition, what, limit_s):
        """The jobs, once they are as they should be."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            jobs = self.jobs()
            if len(jobs) == len(JOBS) and condition(jobs):
                return jobs
            self.narration.follow(jobs, ", ".join(f"{job['name']} {job['state']}" for job in jobs))
            time.sleep(0.5)
        why = invalid_text(self.jobs()) or "this machine is too busy"
        raise SystemExit(f"within {limit_s / 60:g} min not reached: {what}: {why}")

    def train(self, iterations):
        """Until each job has run so many more."""
        goal = {job["job"]: job["iteration"] + iterations for job in self.jobs()}
        return self.wait_for(lambda jobs: all(job["iteration"] >= goal[job["job"]] for job in jobs),
                             f"{iterations} iterations", 60 * iterations)

    def measured_w(self, iterations):
        """Of all GPUs, by the last iterations of each job."""
        total_w = 0
        for job in self.jobs():
            last = self.server.get(f"/v1/jobs/{job['job']}/iterations?after={max(0, job['iteration'] - iterations)}")
            last = last["iterations"]
            total_w += sum(one["energy_j"] for one in last) / sum(one["time_s"] for one in last)
        return total_w

    def end(self):
        end_all(self.trainings)


def planned_w(jobs):
    return sum(job["planned_energy_j"] / job["planned_time_s"] for job in jobs)


def describe(fleet, iterations):
    for job in fleet.jobs():
        say(f"  {job['name']}: {job['planned_energy_j'] / job['planned_time_s']:.0f} W planned, "
            f"{job['planned_time_s']:.3f} s an iteration; {job['reason']}")
    watts = fleet.measured_w(iterations)
    say(f"  all jobs: {planned_w(fleet.jobs()):.0f} W planned, {watts:.0f} W *simulated*")
    return watts


def run(fleet, iterations):
    """Returns the watts of each phase: budget and what was measured."""
    say("the server profiles and plans the jobs: some minutes, longer on a busy machine")
    fleet.wait_for(lambda jobs: all(job["state"] == "running" for job in jobs), "all jobs follow a plan", 900)
    fleet.train(iterations)
    full_w = describe(fleet, iterations)
    plans_w = planned_w(fleet.jobs())
    phases = [{"budget_w": None, "measured_w": full_w}]
    for share in (FALL, 1.1):
        budget_w = share * plans_w
        say(f"power budget: {budget_w:.0f} W")
        fleet.server.request("PUT", "/v1/budgets/cluster", {"watts": budget_w})
        fleet.train(3)  # ranks switch between iterations
        fleet.train(iterations)
        phases.append({"budget_w": budget_w, "measured_w": describe(fleet, iterations),
                       "budgets": fleet.server.get("/v1/budgets")["budgets"], "jobs": fleet.jobs()})
    return phases


def verdict(phases):
    """What happened in words, and whether it is what was wanted."""
    full_w, fallen, risen = phases[0]["measured_w"], phases[1], phases[2]
    over = fallen["measured_w"] / fallen["budget_w"] - 1
    back = risen["measured_w"] / full_w - 1
    text = (f"*simulated*: {100 * over:+z.1f} % against the budget of {fallen['budget_w']:.0f} W; after "
            f"it rose, {100 * back:+z.1f} % against the power before it")
    return text, over <= 0.02 and abs(back) <= 0.05


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("--iterations", type=int, default=6, help="of each job by which a phase is measured")
    parser.add_argument("--port", type=int, default=7787, help="of the dashboard; 0: any that is free")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "cluster", help="folder to write")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    out = fresh_folder(arguments.out)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    gpus = sum(shape["pp"] for shape in JOBS.values())
    with tempfile.TemporaryDirectory(prefix="lg-") as folder, \
            Machine(arguments.build.resolve(), Path(folder), out / "log.txt", gpus) as machine:
        server = Server(machine.lowgear, Path(folder), arguments.port, out / "server.txt")
        fleet = None
        try:
            say(f"dashboard: {server.url}")
            fleet = Fleet(machine, server, out)
            phases = run(fleet, arguments.iterations)
        except KeyboardInterrupt:
            why = fleet and fleet.narration.invalid
            say("ended before the budget has fallen and risen" + (f": {why}" if why else ""))
            raise
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if fleet:
                fleet.end()
            server.end()
    name_warnings(*(out / f"{name}.txt" for name in JOBS))
    text, is_well = verdict(phases)
    say(fleet.narration.invalid or text)
    (out / "cluster.json").write_text(json.dumps(phases, indent=1))
    return 0 if is_well and not fleet.narration.invalid else 1


if __name__ == "__main__":
    end_with(main)
