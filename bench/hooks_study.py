#!/usr/bin/env python3
"""What it costs a training step that its units are reported: `lowgear train` in turns with an agent and without one.

    bench/hooks_study.py [--runs N] [--steps N] [BUILD_FOLDER]

The job computes on the CPU, on two pipeline ranks of one thread each. On: every rank leases a simulated GPU, follows a
plan of one clock (the agent acts on every mark, and nothing changes), records its units, and measures each step's
energy. Off: no agent, no GPU, no recording; the trainer makes the same calls, which end at once. The agent runs in
both, so that what it does by itself does not count.

Prints the median step time of each, and the median over pairs of neighbouring runs of how much longer a step took with
hooks on, each with its smallest and largest.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
from simulated_machine import Machine  # noqa: E402
from training_runs import study_arguments, train, without_gpus  # noqa: E402

REACH = 0.005
CLOCK_MHZ = 1410  # an A100's highest
JOB = """
model: {vocabulary: 256, hidden: 256, layers: 4, heads: 4}
data: {synthetic_tokens: 200000, sequence_length: 64}
parallel: {pp: 2}
microbatches: 8
"""


class Study:
    def __init__(self, build, folder, steps):
        self.lowgear = str(build / "bin" / "lowgear")
        self.folder = folder
        self.steps = steps
        self.runs = 0
        (folder / "job.yaml").write_text(JOB)

    def step_time_s(self, hooks):
        """The median step time of a run."""
        self.runs += 1
        options, environment = [], without_gpus(self.folder)
        if hooks:
            sweep = {"clocks_mhz": [CLOCK_MHZ], "settle_iterations": 0, "iterations": self.steps}
            options = ["--recording", str(self.folder / f"recording-{self.runs}"),
                       "--set", f"energy.profile={json.dumps(sweep)}"]
            environment = {}
        steps = train(self.lowgear, self.folder / "job.yaml", self.steps, self.folder / f"{self.runs}.jsonl", options,
                      environment)
        if any(("energy_j" in step) != hooks for step in steps):
            raise SystemExit("a run measured energy without hooks, or none with them")
        return statistics.median(step["time_s"] for step in steps)


def row(name, values, unit, scale):
    low, middle, high = (scale * value for value in (min(values), statistics.median(values), max(values)))
    print(f"| {name} | {middle:.3f} {unit} | {low:.3f} to {high:.3f} {unit} | {len(values)} |")


def main():
    arguments = study_arguments(__doc__, runs=9, steps=60)
    off, on = [], []
    with tempfile.TemporaryDirectory(prefix="lg-") as name:
        folder = Path(name)
        with Machine(arguments.build.resolve(), folder, folder / "log.txt", gpus=2):
            study = Study(arguments.build.resolve(), folder, arguments.steps)
            for number in range(arguments.runs):
                for hooks in (False, True) if number % 2 == 0 else (True, False):
                    (on if hooks else off).append(study.step_time_s(hooks))
    longer = [b / a - 1 for a, b in zip(off, on)]
    print("| step | median | from to | runs |\n|---|---|---|---|")
    row("hooks off", off, "ms", 1e3)
    row("hooks on", on, "ms", 1e3)
    row("longer by, neighbouring runs", longer, "%", 1e2)
    reached = "yes" if statistics.median(longer) <= REACH else "**no**"
    print(f"target: | hooks on against off, step time | {statistics.median(longer):+.2%} | ≤ {REACH:.1%} | {reached} |")


if __name__ == "__main__":
    main()
