#!/usr/bin/env python3
"""Trains on four simulated GPUs, profiles them, plans their clocks, and trains again by the plan.

    examples/closed-loop/closed_loop.py [--unit-scale X] [BUILD_FOLDER] [OUTPUT_FOLDER]

What a user does on a cluster, on one machine without a GPU: the training is real and runs on the CPU; the GPUs, which
decide how long its units take and what they draw, are simulated. Takes some two minutes on two idle cores, and needs no root. On a
machine that has other work to do, the simulated units are made longer, up to four times, so that they still decide; the figures
come with their errors and with how sure they are. Ends with 0 unless the plan was not followed, the losses are not the
same, no energy was saved, or the plan was slower than load explains.
"""

import argparse
import csv
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from calibration import STEPS as CALIBRATION_STEPS, calibrate, scaled  # noqa: E402: the examples are no package
from simulated_machine import Machine, end_with  # noqa: E402
from verdict import confidence, figure, judge  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOB = HERE / "job.yaml"
STAGES, MICROBATCHES, STEPS = 4, 6, 10
CLOCKS_MHZ = [1410, 1290, 1155, 1020, 885]
SETTLE, COUNTED = 1, 5
RECORDED = {"first": STEPS - 4, "count": 3}  # steps of the run by the plan, for the trace


class Training(Machine):
    """Runs the job on four of them."""

    def __init__(self, build, folder, log, unit_scale):
        super().__init__(build, folder, log, STAGES)
        self.unit_scale = unit_scale

    def train(self, out, *words):
        """Runs the job and returns its steps."""
        metrics = out.with_suffix(".jsonl")
        self.run("train", JOB, "--metrics", metrics, *scaled(self.unit_scale), *words)
        return [json.loads(line) for line in metrics.read_text().splitlines()]

    def calibrate(self, out):
        def train(unit_scale):
            self.unit_scale = unit_scale
            return self.train(out, "--steps", CALIBRATION_STEPS)

        self.unit_scale = calibrate(train, self.unit_scale, say)


def say(text):
    print(f"[closed loop] {text}", flush=True)


def profile(machine, out):
    """Profiles during a training. On a busy machine the blocking power may stay uncertain, or the recording be invalid as
    units take longer than the simulated GPUs': then with more steps, and with longer units."""
    counted = COUNTED
    while True:
        say(f"profiling while training: {len(CLOCKS_MHZ)} clocks, {SETTLE + counted} steps each")
        sweep = json.dumps({"clocks_mhz": CLOCKS_MHZ, "settle_iterations": SETTLE, "iterations": counted})
        recording = out / f"recording-{counted}"
        machine.train(out / "profiling", "--steps", len(CLOCKS_MHZ) * (SETTLE + counted), "--record", recording,
                      "--set", f"energy.profile={sweep}")
        try:
            machine.run("profile", recording, "--clocks", "few", "--supported-clocks",
                        f"{CLOCKS_MHZ[0]}-{CLOCKS_MHZ[-1]}/15", "--skip-iterations", 0, "--out", out / "profile.csv",
                        "--blocking-power-out", out / "blocking.csv")
            return
        except SystemExit as failure:
            if counted > 2 * COUNTED:
                raise
            if "marked invalid" in str(failure):
                say("this machine was too busy for the simulated GPUs: profiling again, for longer, with longer units")
                machine.unit_scale *= 1.5
            else:
                say(f"profiling again, for longer: {str(failure).strip().splitlines()[-1].removeprefix('lowgear: error: ')}")
            counted *= 2


def plan(machine, out):
    """The plan that the report shows, and the switch latency in ms by which the agent asks for its clocks ahead."""
    say("planning")
    summary = json.loads(machine.run(
        "plan", out / "profile.csv", "--microbatches", MICROBATCHES, "--blocking-power", out / "blocking.csv", "--gpu",
        machine.gpu_name(), "--out", out / "plan", "--json"))
    chosen = summary["shown_plan"]
    return next(row for row in summary["plans"] if row["plan"] == chosen), 1e3 * summary["switch_latency"]["asked_ahead_s"]


def trace(machine, out, plan_file, switch_latency_ms):
    """One trace of the plan and of the run that followed it. Returns by how much units took longer than planned; None where
    this machine was too busy for their times to count."""
    try:
        result = json.loads(machine.run(
            "verify", "--replay", plan_file, "--profile", out / "plan" / "profile.csv", "--blocking-power",
            out / "blocking.csv", "--switch-latency", switch_latency_ms, "--measured", out / "plan-recording", "--trace",
            out / "trace.json", "--json"))
    except SystemExit as failure:
        if "marked invalid" not in str(failure):
            raise
        return None
    differences = [unit["difference_pct"] for unit in result["measured"]["units"]]
    return min(differences), max(differences)


def share_at_other_clocks(out, plan_file):
    """Recorded units of the run by the plan whose requested clock differs from the plan's."""
    planned = {}
    for rank in json.loads(plan_file.read_text())["stages"]:
        for op in rank["ops"]:
            planned[rank["stage"], op["op"], op["microbatch"]] = op["mhz"]
    units, others = 0, 0
    for table in (out / "plan-recording").glob("**/units.csv"):
        for row in csv.DictReader(table.open()):
            wanted = planned.get((int(row["stage"]), row["instruction"], int(row["microbatch"])))
            if wanted is None:
                continue
            units += 1
            others += int(row["frequency"]) != wanted
    return others / units if units else 1


def show(baseline, planned, by_plan):
    print(f"\n{'':28}{'time a step':>14}{'energy a step':>16}{'last loss':>12}")
    for name, steps in (("highest clocks, simulated", baseline), ("by the plan, simulated", by_plan)):
        time, energy = figure(steps, "time_s"), figure(steps, "energy_j")
        print(f"{name:28}{time.value:12.4f} s{energy.value:14.1f} J{steps[-1]['loss']:12.6f}")
    print(f"{'the plan, planned':28}{planned['time_s']:12.4f} s{planned['energy_j']:14.1f} J")


def expected_text(baseline, planned, units, switch_latency_ms):
    """Why the run saved more or less than its plan said. `units`: by how much units took longer than planned."""
    energy, time = (planned[what] / figure(baseline, what).value - 1 for what in ("energy_j", "time_s"))
    return (f"the plan expected energy {energy:+z.1%}, time {time:+z.1%}: the run differs because its units took {units[0]:+z.1f} to "
            f"{units[1]:+z.1f} % longer than planned, and clocks change some {switch_latency_ms:.3g} ms after the agent's request")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "out" / "closed-loop", help="folder to write")
    parser.add_argument("--unit-scale", type=float, default=1,
                        help="longer units on the simulated GPUs, whose clocks take some 25 ms to change")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    build, out = arguments.build.resolve(), arguments.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lg-") as folder, \
            Training(build, Path(folder), out / "log.txt", arguments.unit_scale) as machine:
        machine.calibrate(out / "calibration")
        profile(machine, out)
        planned, switch_latency_ms = plan(machine, out)
        say(f"training {STEPS} steps at the highest clocks")
        baseline = machine.train(out / "baseline")
        say(f"training {STEPS} steps by plan {planned['plan']:05}")
        plan_file = out / "plan" / "plans" / f"{planned['plan']:05}.json"
        by_plan = machine.train(out / "plan-run", "--plan", plan_file, "--record", out / "plan-recording",
                                "--set", f"energy.recorded_steps={json.dumps(RECORDED)}")
        units = trace(machine, out, plan_file, switch_latency_ms)

    show(baseline, planned, by_plan)
    verdict = judge(baseline, by_plan, share_at_other_clocks(out, plan_file))
    print(f"\nby the plan: energy {verdict.energy.percent()}, time {verdict.time.percent()}: medians and standard errors (real training, "
          "simulated GPUs)")
    print(f"this result is {confidence(verdict)}")
    if units:
        print(expected_text(baseline, planned, units, switch_latency_ms))
        print(f"plan and run on one time axis (open in ui.perfetto.dev): {out}/trace.json")
    else:
        print("units of the run are not compared with the plan's: this machine was too busy for the simulated GPUs")
    print(f"report: file://{out}/plan/report.html")
    for remark in verdict.remarks:
        print(f"remark: {remark}")
    for problem in verdict.problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    end_with(main)
