#!/usr/bin/env python3
"""How close a training step comes to its pipeline's ideal: `lowgear train` on four ranks of one thread each.

    bench/step_time_study.py [--runs N] [--steps N] [BUILD_FOLDER]

The ideal of S stages and M microbatches is (M + S - 1)(F + B) with the times of the slowest stage's units: as if no
message, no optimizer and no start of a unit took any time. Times of units are those that ranks record, medians over
steps. Wants four idle cores.
"""

import csv
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from training_runs import WARM_UP_STEPS, study_arguments, train, without_gpus

REACH = 1.10
STAGES, MICROBATCHES = 4, 8
JOB = f"""
model: {{vocabulary: 512, hidden: 384, layers: 8, heads: 6}}
data: {{synthetic_tokens: 200000, sequence_length: 128}}
parallel: {{pp: {STAGES}}}
microbatches: {MICROBATCHES}
"""


def read_units(recording):
    """(stage, instruction, iteration, begin, end) of all ranks after the warm-up, on the machine's clock."""
    for rank in sorted(recording.iterdir()):
        start_s = json.loads((rank / "recording.json").read_text())["start_monotonic_s"]
        with open(rank / "units.csv", newline="") as file:
            for row in csv.DictReader(file):
                if int(row["iteration"]) >= WARM_UP_STEPS:
                    yield (int(row["stage"]), row["instruction"], int(row["iteration"]),
                           start_s + float(row["start_s"]), start_s + float(row["end_s"]))


def measure(lowgear, folder, steps):
    """Step, pipeline and ideal in seconds."""
    (folder / "job.yaml").write_text(JOB)
    recording = folder / "recording"
    run = train(lowgear, folder / "job.yaml", steps, folder / "metrics.jsonl", ["--recording", str(recording)],
                without_gpus(folder))
    durations_s, spans = defaultdict(list), defaultdict(lambda: [float("inf"), 0.0])
    for stage, instruction, iteration, begin_s, end_s in read_units(recording):
        durations_s[stage, instruction].append(end_s - begin_s)
        span = spans[iteration]
        span[:] = [min(span[0], begin_s), max(span[1], end_s)]
    slowest_s = max(sum(statistics.median(durations_s[stage, kind]) for kind in ("forward", "backward"))
                    for stage in range(STAGES))
    pipeline_s = statistics.median(end_s - begin_s for begin_s, end_s in spans.values())
    return statistics.median(step["time_s"] for step in run), pipeline_s, (MICROBATCHES + STAGES - 1) * slowest_s


def main():
    arguments = study_arguments(__doc__, runs=3, steps=20)
    print("| run | ideal, s | pipeline, s | over ideal | step, s | over ideal |\n|---|---|---|---|---|---|")
    worst = 0
    for run in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory(prefix="lowgear-step-") as folder:
            step_s, pipeline_s, ideal_s = measure(str(arguments.build / "bin" / "lowgear"), Path(folder),
                                                  arguments.steps)
        worst = max(worst, step_s / ideal_s)
        print(f"| {run} | {ideal_s:.3f} | {pipeline_s:.3f} | {pipeline_s / ideal_s:.3f} x | {step_s:.3f} | "
              f"{step_s / ideal_s:.3f} x |", flush=True)
    print(f"reach: at most {REACH} x; {'reached' if worst <= REACH else 'NOT REACHED'} "
          f"(load average {os.getloadavg()[0]:.1f})")
    return 0 if worst <= REACH else 1


if __name__ == "__main__":
    sys.exit(main())
