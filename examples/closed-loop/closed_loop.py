#!/usr/bin/env python3
"""Trains on four simulated GPUs, profiles them, plans their clocks, and trains again by the plan.

    examples/closed-loop/closed_loop.py [--unit-scale X] [BUILD_FOLDER] [OUTPUT_FOLDER]

What a user does on a cluster, on one machine without a GPU: the training is real and runs on the CPU; the GPUs, which
decide how long its units take and what they draw, are simulated. Takes some two minutes and needs no root. Ends with 0
only if the plan saved energy, kept the time, and left the losses as they were.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from simulated_machine import Machine  # noqa: E402: the examples are no package

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOB = HERE / "job.yaml"
STAGES, MICROBATCHES, STEPS = 4, 6, 10
CLOCKS_MHZ = [1410, 1290, 1155, 1020, 885]
SETTLE, COUNTED = 1, 5
SWITCH_LATENCY_MS = 25  # of the simulated A100s: a call of 10 to 20 ms, then a transition of some 10 ms
RECORDED = {"first": STEPS - 4, "count": 3}  # steps of the run by the plan, for the trace
MAX_SLOWDOWN = 1.03  # a busy machine adds its own


class Training(Machine):
    """Runs the job on four of them."""

    def __init__(self, build, folder, log, settings=()):
        super().__init__(build, folder, log, STAGES)
        self.settings = settings

    def train(self, out, *words):
        """Runs the job; its steps, without those in which clocks and memory settle."""
        metrics = out.with_suffix(".jsonl")
        self.run("train", JOB, "--metrics", metrics, *self.settings, *words)
        return [json.loads(line) for line in metrics.read_text().splitlines()]


def say(text):
    print(f"[closed loop] {text}", flush=True)


def mean(steps, what):
    counted = steps[2:]
    return sum(step[what] for step in counted) / len(counted)


def profile(machine, out):
    say(f"profiling while training: {len(CLOCKS_MHZ)} clocks, {SETTLE + COUNTED} steps each")
    sweep = json.dumps({"clocks_mhz": CLOCKS_MHZ, "settle_iterations": SETTLE, "iterations": COUNTED})
    recording = out / "recording"
    machine.train(out / "profiling", "--steps", len(CLOCKS_MHZ) * (SETTLE + COUNTED), "--recording", recording,
                  "--set", f"energy.profile={sweep}")
    machine.run("profile", recording, "--clocks", "few", "--supported-clocks", f"{CLOCKS_MHZ[0]}-{CLOCKS_MHZ[-1]}/15",
                "--skip-iterations", 0, "--out", out / "profile.csv", "--blocking-power-out", out / "blocking.csv")


def plan(machine, out):
    say("planning")
    summary = json.loads(machine.run(
        "plan", "--profile", out / "profile.csv", "--stages", STAGES, "--microbatches", MICROBATCHES, "--schedule", "1f1b",
        "--blocking-power", out / "blocking.csv", "--switch-latency", SWITCH_LATENCY_MS, "--gpu", machine.gpu_name(),
        "--out", out / "plan", "--json"))
    chosen = summary["shown_plan"]
    return next(row for row in summary["plans"] if row["plan"] == chosen)


def trace(machine, out, plan_file):
    """One trace of the plan and of the run that followed it. Returns by how much units took longer than planned."""
    result = json.loads(machine.run(
        "simulate", "--plan", plan_file, "--profile", out / "plan" / "profile.csv", "--blocking-power",
        out / "blocking.csv", "--switch-latency", SWITCH_LATENCY_MS, "--measured", out / "plan-recording", "--trace",
        out / "trace.json", "--json"))
    differences = [unit["difference_pct"] for unit in result["measured"]["units"]]
    return min(differences), max(differences)


def show(baseline, planned, by_plan):
    print(f"\n{'':28}{'time a step':>14}{'energy a step':>16}{'last loss':>12}")
    for name, steps in (("highest clocks, simulated", baseline), ("by the plan, simulated", by_plan)):
        print(f"{name:28}{mean(steps, 'time_s'):12.4f} s{mean(steps, 'energy_j'):14.1f} J{steps[-1]['loss']:12.6f}")
    print(f"{'the plan, planned':28}{planned['time_s']:12.4f} s{planned['energy_j']:14.1f} J")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "out" / "closed-loop", help="folder to write")
    parser.add_argument("--unit-scale", type=float, default=1,
                        help="longer units on the simulated GPUs, whose clocks take some 25 ms to change")
    return parser.parse_args()


def scaled(scale):
    """Settings that make the units of the job longer."""
    times = {"layer_forward_s": 0.03, "embedding_forward_s": 0.003, "head_forward_s": 0.018}
    return [word for name, time_s in times.items() if scale != 1
            for word in ("--set", f"simulated_gpu.{name}={time_s * scale}")]


def main():
    arguments = parse_arguments()
    build, out = arguments.build.resolve(), arguments.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lg-") as folder, Training(build, Path(folder), out / "log.txt", scaled(arguments.unit_scale)) as machine:
        profile(machine, out)
        planned = plan(machine, out)
        say(f"training {STEPS} steps at the highest clocks")
        baseline = machine.train(out / "baseline")
        say(f"training {STEPS} steps by plan {planned['plan']:05}")
        plan_file = out / "plan" / "plans" / f"{planned['plan']:05}.json"
        by_plan = machine.train(out / "plan-run", "--plan", plan_file, "--recording", out / "plan-recording",
                                "--set", f"energy.recorded_steps={json.dumps(RECORDED)}")
        units = trace(machine, out, plan_file)

    show(baseline, planned, by_plan)
    saved = 1 - mean(by_plan, "energy_j") / mean(baseline, "energy_j")
    slowdown = mean(by_plan, "time_s") / mean(baseline, "time_s")
    print(f"\nenergy {-saved:+.1%}, time {slowdown - 1:+.1%} (real training, simulated GPUs)")
    print(f"against the plan: energy {mean(by_plan, 'energy_j') / planned['energy_j'] - 1:+.1%}, time "
          f"{mean(by_plan, 'time_s') / planned['time_s'] - 1:+.1%}, units by stage and direction {units[0]:+.1f} to "
          f"{units[1]:+.1f} %")
    print(f"report: file://{out}/plan/report.html")
    print(f"plan and run on one time axis (open in ui.perfetto.dev): {out}/trace.json")
    problems = []
    if any(step.get("invalid") for step in baseline + by_plan):
        problems.append("this machine was too slow or too busy for the simulated GPUs: times and energies mean nothing")
    if [step["loss"] for step in baseline] != [step["loss"] for step in by_plan]:
        problems.append("the losses differ: clocks must not change what is computed")
    if saved <= 0:
        problems.append("no energy was saved")
    if slowdown > MAX_SLOWDOWN:
        problems.append("the plan was slower")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
