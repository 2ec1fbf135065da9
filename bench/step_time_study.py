#!/usr/bin/env python3
"""How close a training step comes to its pipeline's ideal: `lowgear train` on four ranks of one thread each.

    bench/step_time_study.py [--runs N] [--steps N] [BUILD_FOLDER]

The ideal of S stages and M microbatches is (M + S - 1)(F + B) with the times of the slowest stage's units: as if no
message, no optimizer and no start of a unit took any time. Times of units are those that ranks record, medians over
steps. Wants four idle cores.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REACH = 1.10
STAGES, MICROBATCHES, WARM_UP_STEPS = 4, 8, 3
JOB = f"""
model: {{vocabulary: 512, hidden: 384, layers: 8, heads: 6}}
data: {{synthetic_tokens: 200000, sequence_length: 128}}
parallel: {{pp: {STAGES}}}
microbatches: {MICROBATCHES}
"""


def train(lowgear, folder, steps):
    """Times of the steps, and the folder of the recording."""
    (folder / "job.yaml").write_text(JOB)
    nothing = str(folder / "none")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LOWGEAR_NVML": nothing,
                   "LOWGEAR_AGENT_SOCKET": nothing}
    command = [lowgear, "train", str(folder / "job.yaml"), "--steps", str(steps), "--json", "--metrics",
               str(folder / "metrics.jsonl"), "--recording", str(folder / "recording")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    steps_of_run = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [step["time_s"] for step in steps_of_run][WARM_UP_STEPS:], folder / "recording"


def read_units(recording):
    """(stage, instruction, iteration, begin, end) of all ranks behind the warm-up, on the machine's clock."""
    for rank in sorted(recording.iterdir()):
        start_s = json.loads((rank / "recording.json").read_text())["start_monotonic_s"]
        with open(rank / "units.csv", newline="") as file:
            for row in csv.DictReader(file):
                if int(row["iteration"]) >= WARM_UP_STEPS:
                    yield (int(row["stage"]), row["instruction"], int(row["iteration"]),
                           start_s + float(row["start_s"]), start_s + float(row["end_s"]))


def measure(lowgear, folder, steps):
    """Step, pipeline and ideal in seconds."""
    step_times_s, recording = train(lowgear, folder, steps)
    durations_s, spans = defaultdict(list), defaultdict(lambda: [float("inf"), 0.0])
    for stage, instruction, iteration, begin_s, end_s in read_units(recording):
        durations_s[stage, instruction].append(end_s - begin_s)
        span = spans[iteration]
        span[:] = [min(span[0], begin_s), max(span[1], end_s)]
    slowest_s = max(sum(statistics.median(durations_s[stage, kind]) for kind in ("forward", "backward"))
                    for stage in range(STAGES))
    pipeline_s = statistics.median(end_s - begin_s for begin_s, end_s in spans.values())
    return statistics.median(step_times_s), pipeline_s, (MICROBATCHES + STAGES - 1) * slowest_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("--runs", type=int, default=3, help="runs (%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="steps of a run (%(default)s)")
    arguments = parser.parse_args()
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
