#!/usr/bin/env python3
"""What attaching costs a job of PyTorch's pipelining: step times with and without, in pairs, on one GPU a rank.

    bench/gpu/attach/step_cost.py [--library liblowgear.so] [--agent BUILD] [--ranks 2] [--pairs 9] [--steps 10]
                                  [--compile none] [--log FILE]

Runs ../baseline_pipelining.py, recorded by Lowgear with marks on the job's stream, and without; which comes first
alternates. Prints each pair as it ends, then the median of the differences with their range. Changes no setting of any GPU.

--agent: the job also follows a plan, whose clocks an agent sets on *simulated* GPUs: all of Lowgear works but for the
real GPUs' clocks. BUILD is a build folder with bin/lowgear and simgpu/libnvidia-ml.so.1.
--log: pairs are kept in this file, and the summary is of all pairs in it, also those of earlier runs.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from followed_plan import ROOT, Machine, environment_of, make_plan  # noqa: E402: scripts are no package

JOB = Path(__file__).resolve().parent.parent / "baseline_pipelining.py"
MICROBATCHES = 16
UNIT_S = (0.027, 0.055)  # of a stage of half the model on an H200, about


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_ranks(words, ranks, environment):
    """Standard output of rank 0. torchrun would do it, too, but takes some seconds more of every run."""
    common = {**environment, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryFile("w+") as errors:
        processes = [
            subprocess.Popen(words, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True, stderr=errors,
                             stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL)
            for rank in range(ranks)]
        out = processes[0].communicate()[0]
        codes = [process.wait() for process in processes]
        errors.seek(0)
        if any(codes) or not out:
            raise SystemExit(f"the job ended with {codes}: {errors.read()[-2000:]}")
    return out


def step_time_s(arguments, recording, plan):
    """Mean step time of a run; `recording` is None where Lowgear is not asked for."""
    if recording:
        environment = environment_of(arguments.library, recording, plan)
    else:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
    words = [sys.executable, str(JOB), "--steps", str(arguments.steps), "--compile", arguments.compile]
    lines = [line for line in run_ranks(words, arguments.ranks, environment).splitlines() if line.startswith("{")]
    if recording:
        check_recording(recording / "rank-00000" / "units.csv", plan)
    return json.loads(lines[-1])["step_s"]


def check_recording(path, plan):
    rows = path.read_text(encoding="utf-8").splitlines()
    column = rows[0].split(",").index("frequency")
    if len(rows) < 2:
        raise SystemExit("no unit was recorded")
    if plan and all(int(row.split(",")[column]) == 0 for row in rows[1:]):
        raise SystemExit("the agent has set no clock")


def measure(arguments, plan):
    """Runs the pairs, and returns their differences in per cent, with those of the log."""
    differences_pct = []
    if arguments.log and arguments.log.exists():
        differences_pct = [json.loads(line)["difference_pct"] for line in arguments.log.read_text().splitlines()]
    for pair in range(len(differences_pct), len(differences_pct) + arguments.pairs):
        with tempfile.TemporaryDirectory() as folder:
            recordings = [None, Path(folder) / "recording"]
            order = recordings if pair % 2 == 0 else recordings[::-1]
            times_s = {recording is not None: step_time_s(arguments, recording, plan) for recording in order}
        differences_pct.append(100 * (times_s[True] / times_s[False] - 1))
        print(f"pair {pair + 1}: {times_s[False]:.5f} s without, {times_s[True]:.5f} s with: "
              f"{differences_pct[-1]:+.3f} %", flush=True)
        if arguments.log:
            with open(arguments.log, "a", encoding="utf-8") as log:
                log.write(json.dumps({"without_s": times_s[False], "with_s": times_s[True],
                                      "difference_pct": differences_pct[-1]}) + "\n")
    return differences_pct


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--agent", type=Path, metavar="BUILD")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", choices=["none", "block", "whole"], default="none")
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    arguments.library = arguments.library.resolve()
    if arguments.agent:
        with tempfile.TemporaryDirectory(prefix="lg-") as name:
            folder = Path(name)
            with Machine(arguments.agent.resolve(), folder, folder / "log", arguments.ranks, "H200") as machine:
                plan = make_plan(machine, folder, [UNIT_S] * arguments.ranks, MICROBATCHES)
                differences_pct = measure(arguments, plan)
    else:
        differences_pct = measure(arguments, None)
    print(f"difference of {len(differences_pct)} pairs: median {statistics.median(differences_pct):+.3f} %, "
          f"{min(differences_pct):+.3f} to {max(differences_pct):+.3f} %")


if __name__ == "__main__":
    main()
