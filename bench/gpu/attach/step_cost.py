#!/usr/bin/env python3
"""What attaching costs a job of PyTorch's pipelining: step times with and without, in pairs, on one GPU a rank.

    bench/gpu/attach/step_cost.py [--library liblowgear.so] [--ranks 2] [--pairs 9] [--steps 10] [--compile none]

Runs ../baseline_pipelining.py, recorded by Lowgear with marks on the job's stream, and without; which comes first
alternates. Prints each pair as it ends, then the median of the differences with their range. Changes no setting of any GPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JOB = HERE.parent / "baseline_pipelining.py"


def step_time_s(arguments, recording):
    """Mean step time of a run; `recording` is None where Lowgear is not asked for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
    if recording:
        environment.update(LOWGEAR_AGENT_SOCKET="", LOWGEAR_LIBRARY=str(arguments.library),
                           LOWGEAR_RECORDING=str(recording))
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT / "python" / "lowgear" / "site"), environment.get("PYTHONPATH")]))
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.ranks),
             str(JOB), "--steps", str(arguments.steps), "--compile", arguments.compile]
    result = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not lines:
        raise SystemExit(f"the job ended with {result.returncode}: {result.stderr[-2000:]}")
    if recording:
        units = sum(1 for _ in open(recording / "rank-00000" / "units.csv", encoding="utf-8")) - 1
        if units <= 0:
            raise SystemExit("no unit was recorded")
    return json.loads(lines[-1])["step_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", choices=["none", "block", "whole"], default="none")
    arguments = parser.parse_args()
    arguments.library = arguments.library.resolve()
    differences_pct = []
    for pair in range(arguments.pairs):
        with tempfile.TemporaryDirectory() as folder:
            recordings = [None, Path(folder) / "recording"]
            order = recordings if pair % 2 == 0 else recordings[::-1]
            times_s = {recording is not None: step_time_s(arguments, recording) for recording in order}
        differences_pct.append(100 * (times_s[True] / times_s[False] - 1))
        print(f"pair {pair + 1}: {times_s[False]:.5f} s without, {times_s[True]:.5f} s with: "
              f"{differences_pct[-1]:+.3f} %", flush=True)
    print(f"difference: median {statistics.median(differences_pct):+.3f} %, "
          f"{min(differences_pct):+.3f} to {max(differences_pct):+.3f} %")


if __name__ == "__main__":
    main()
