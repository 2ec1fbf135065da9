#!/usr/bin/env python3
"""Server, agent, training on four simulated GPUs, and the dashboard, by one command.

    examples/demo/demo.py [--straggler] [--iterations N] [--set KEY=VALUE]... [--port P] [--out FOLDER] [BUILD_FOLDER]

The server profiles the job while it trains, plans its clocks, and hands the plan to the ranks; open the address that is
printed and watch. --straggler makes one GPU 1.2 times slower for a while: the server notices, lets the others run
slower, and takes it back. Ctrl-C ends everything; the GPUs' clocks are restored. The training is real and runs on the
CPU; the GPUs, which decide how long its units take and what they draw, are simulated. On a machine that has other work
to do their units are made longer, up to four times. Needs no root.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from narration import Narration, invalid_text, say

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from calibration import STEPS as CALIBRATION_STEPS, calibrate, scaled  # noqa: E402: the examples are no package
from simulated_machine import INTERRUPTED, Machine, end_all, end_with, fresh_folder, name_warnings  # noqa: E402
from server_process import Server  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = ROOT / "examples" / "closed-loop" / "job.yaml"
STAGES = 4
PROFILE = {"clocks": 5, "iterations": 3, "settle_iterations": 1, "min_mhz": 885}
SWITCH_LATENCY_MS = 25  # of the simulated A100s
SLOW_RANK, SLOW_FACTOR = 1, 1.2
SETTLED, SLOWED = 8, 10  # iterations by the plan before a GPU is slowed, and until it is fast again
FOREVER = 1_000_000_000  # steps that no one waits for: training says no remaining time


class Demo:
    def __init__(self, machine, server, arguments):
        self.machine, self.server, self.arguments = machine, server, arguments
        self.decision = 0
        self.narration = Narration()
        self.seen = -1
        self.iterations = []
        self.decisions = []
        self.marks = {}  # what was done before which iteration
        self.by_plan = 0

    def follow(self, training):
        """Prints decisions until the training ends, or enough iterations have run by a plan."""
        job = None
        while training.poll() is None:
            time.sleep(0.2)
            if self.server.process.poll() is not None:
                raise SystemExit("the server has ended: " + self.server.log.read_text())
            jobs = self.server.get("/v1/jobs")["jobs"]
            if not jobs:
                continue
            job = jobs[0]
            self.print_progress(job)
            self.print_decisions(job["job"])
            self.collect(job["job"])
            if self.arguments.straggler:
                self.disturb(job)
            if self.arguments.iterations and self.by_plan >= self.arguments.iterations:
                break
        return job

    def print_progress(self, job):
        trial = job["profiling"]
        self.narration.follow([job], job["state"] + (f": clock {trial['clock']} of {trial['clocks']}" if trial else ""))

    def print_decisions(self, job):
        for decision in self.server.get(f"/v1/jobs/{job}/decisions?after={self.decision}")["decisions"]:
            self.decision = decision["id"]
            self.decisions.append(decision)
            what = decision.get("technique", decision["kind"]).replace("_", " ")
            self.narration.tell(f"{what}: {decision['reason']}")

    def collect(self, job):
        for iteration in self.server.get(f"/v1/jobs/{job}/iterations?after={self.seen}")["iterations"]:
            self.seen = iteration["iteration"]
            self.iterations.append(iteration)
            self.by_plan += iteration["planned_time_s"] is not None

    def disturb(self, job):
        if "slow" not in self.marks and self.by_plan >= SETTLED:
            self.slow(SLOW_FACTOR, "slow")
        elif "fast" not in self.marks and self.by_plan >= SETTLED + SLOWED:
            self.slow(1, "fast")

    def slow(self, factor, mark):
        self.machine.run("simgpu", "slow", "--gpu", SLOW_RANK, "--factor", factor)
        self.marks[mark] = self.seen + 1
        say(f"GPU {SLOW_RANK} takes {factor} times as long from iteration {self.seen + 1} on (simulated)")


def unit_scale(machine, out, arguments):
    """A scale of the simulated units at which they, and not this machine's load, decide how long steps take."""
    def train(scale):
        metrics = out / "calibration.jsonl"
        machine.run("train", JOB, "--steps", CALIBRATION_STEPS, "--metrics", metrics, *scaled(scale), *settings(arguments))
        return [json.loads(line) for line in metrics.read_text().splitlines()]

    return calibrate(train, 1, say)


def settings(arguments):
    return [word for setting in arguments.set for word in ("--set", setting)]


def start_training(lowgear, server, out, scale, arguments):
    return subprocess.Popen(
        [lowgear, "train", str(JOB), "--steps", str(FOREVER), "--server", f"unix:{server.socket}", "--metrics",
         str(out / "metrics.jsonl"), "--set", f"server.profile={json.dumps(PROFILE)}", "--set", "server.name=demo",
         "--set", f"server.switch_latency_ms={SWITCH_LATENCY_MS}",
         *scaled(scale), *settings(arguments)],
        stdout=open(out / "training.txt", "w", encoding="utf-8"), stderr=subprocess.STDOUT, process_group=0)


def stalls_text(stalled):
    """Of iterations that this machine held up."""
    return f", without {stalled} iteration{'s'[stalled == 1:]} that stalled" if stalled else ""


def summary_text(job):
    if job and invalid_text([job]):
        return invalid_text([job])
    if job is None or job["baseline"] is None or job["saved_pct"] is None:
        return "ended before there was a plan to compare"
    return (f"*simulated*, last iterations by the plan against {job['baseline']['iterations']} at full "
            f"clocks: energy {-job['saved_pct']:+z.1f} % (+-{job['saved_error_pct']:.1f}), time {job['slowdown_pct']:+z.1f} % "
            f"(+-{job['slowdown_error_pct']:.1f}){stalls_text(job['stalled_iterations'])}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("--straggler", action="store_true", help="slow one GPU down for a while")
    parser.add_argument("--iterations", type=int, default=0, help="end after so many by a plan; 0: with Ctrl-C")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of the training's configuration: --set parallel.pp=2 --set parallel.dp=2")
    parser.add_argument("--port", type=int, default=7787, help="of the dashboard; 0: any that is free")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="folder to write")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    out = fresh_folder(arguments.out)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="lg-") as folder, \
            Machine(arguments.build.resolve(), Path(folder), out / "log.txt", STAGES) as machine:
        scale = unit_scale(machine, out, arguments)
        server = Server(machine.lowgear, Path(folder), arguments.port, out / "server.txt")
        say(f"dashboard: {server.url}")
        say("the server measures a baseline, tries clocks and plans: about a minute, several on a busy machine")
        training = start_training(machine.lowgear, server, out, scale, arguments)
        demo = Demo(machine, server, arguments)
        job, interrupted = None, False
        try:
            job = demo.follow(training)
        except KeyboardInterrupt:
            interrupted = True
            job = next(iter(server.get("/v1/jobs")["jobs"]), None)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            say("ends once the step that runs has ended")
            end_all([training])
            server.end()
    say(summary_text(job))
    name_warnings(out / "training.txt")
    (out / "demo.json").write_text(json.dumps({"job": job, "marks": demo.marks, "decisions": demo.decisions,
                                               "iterations": demo.iterations}, indent=1))
    if training.returncode not in (0, -signal.SIGTERM):
        print((out / "training.txt").read_text()[-2000:], file=sys.stderr)
        return 1
    return INTERRUPTED if interrupted else 0


if __name__ == "__main__":
    end_with(main)
