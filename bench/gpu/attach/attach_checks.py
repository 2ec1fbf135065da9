#!/usr/bin/env python3
"""Runs real jobs of PyTorch's pipelining, transformers, Lightning and Accelerate with and without Lowgear.

    bench/gpu/attach/attach_checks.py [--library liblowgear.so] [--command lowgear] [--iterations 100] [--ranks 4] [NAME...]

Needs PyTorch 2.8 or newer; jobs whose framework is missing are skipped, which the table says. Checks of every schedule:
each unit of each rank once in every iteration, forwards in the order in which PyTorch's own hooks have seen them, the
same order in all iterations, nothing refused, evaluations not marked, and the same losses bit for bit as without. Of
every trainer: the number of iterations, and the losses. Ends with 1 when a check fails. Pipelines run on GPUs where each
rank has one, else on CPUs; ZBVZeroBubble and DualPipeV need GPUs, as gloo cannot send from a rank to itself.

Without --command, jobs find the variables set that `lowgear run --record` sets, as the program may not be there.
"""

import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SITE = ROOT / "python" / "lowgear" / "site"
SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
#: Name: script, package that it needs.
TRAINERS = {"transformers Trainer": ("trainer.py", ("transformers",)),
            "Lightning": ("lightning_job.py", ("lightning", "pytorch_lightning")),
            "Accelerate": ("accelerate_job.py", ("accelerate",))}


class Failed(Exception):
    """A check found something."""


def require(condition, text):
    if not condition:
        raise Failed(text)


class Jobs:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder

    def environment(self, recording):
        """Of a job; `recording` is None where Lowgear is not asked for."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
        kept.update(OMP_NUM_THREADS="1", LOWGEAR_AGENT_SOCKET="", LOWGEAR_LIBRARY=str(self.arguments.library))
        if recording and not self.arguments.command:
            kept["LOWGEAR_RECORDING"] = str(recording)
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), kept.get("PYTHONPATH")]))
        return kept

    def run(self, name, words, recording=None):
        """Files that the ranks of a job wrote, in the order of ranks, and what it said."""
        out = self.folder / f"{name}-{'with' if recording else 'without'}"
        out.mkdir()
        words = [*map(str, words), str(out)]
        if recording and self.arguments.command:
            words = [self.arguments.command, "run", "--record", str(recording), "--", *words]
        result = subprocess.run(words, capture_output=True, text=True, env=self.environment(recording), check=False,
                                timeout=600)
        require(result.returncode == 0, f"ended with {result.returncode}: {result.stderr[-3000:]}")
        return [json.loads(path.read_text()) for path in sorted(out.glob("rank-*.json"))], result.stderr

    def both(self, name, words):
        """A job without and with Lowgear: what its ranks wrote, and the folder of the recording."""
        plain, _ = self.run(name, words)
        recording = self.folder / f"{name}-recording"
        attached, said = self.run(name, words, recording)
        require("lowgear: attached" in said, f"it did not attach: {said[-3000:]}")
        refused = [line for line in said.splitlines() if "measuring only" in line or "not measured" in line]
        require(not refused, f"refused: {refused}")
        require([rank["losses"] for rank in plain] == [rank["losses"] for rank in attached], "the losses differ")
        require(any(rank["losses"] for rank in plain), "there are no losses")
        return attached, recording


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_rank(units, rank, iterations):
    """Returns how many units an iteration has."""
    by_iteration = {}
    for row in units:
        unit = (row["instruction"], int(row["stage"]), int(row["microbatch"]))
        by_iteration.setdefault(int(row["iteration"]), []).append(unit)
    require(sorted(by_iteration) == list(range(iterations)), f"iterations {sorted(by_iteration)[:3]}...")
    first = by_iteration[0]
    counts = Counter(first)
    require(max(counts.values()) == 1, f"more than once: {counts.most_common(1)}")
    for stage in rank["stages"]:
        for microbatch in range(rank["microbatches"]):
            kinds = {kind for kind, at, of in first if (at, of) == (stage, microbatch)}
            split = {"forward", "input_gradient", "weight_gradient"}
            require(kinds in ({"forward", "backward"}, split), f"stage {stage}, microbatch {microbatch}: {sorted(kinds)}")
    forwards = [stage for kind, stage, _ in first if kind == "forward"]
    for iteration in range(iterations):
        require(by_iteration[iteration] == first, f"iteration {iteration} has another order than iteration 0")
        if iteration:  # the first one also finds out shapes
            require(rank["forwards"][iteration] == forwards, f"iteration {iteration}: forwards in another order")
    return len(first)


def check_schedule(jobs, name, iterations):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", jobs.arguments.ranks,
             HERE / "jobs" / "pipeline.py", name, iterations]
    ranks, recording = jobs.both(name, words)
    units = [check_rank(rows(recording / f"rank-{at:05d}" / "units.csv"), rank, iterations)
             for at, rank in enumerate(ranks)]
    return f"{'/'.join(map(str, units))} units, {iterations} iterations, same losses"


def check_trainer(jobs, name, iterations):
    script, packages = TRAINERS[name]
    if not any(importlib.util.find_spec(package) for package in packages):
        return None
    _, recording = jobs.both(script, [sys.executable, HERE / "jobs" / script, iterations])
    seen = len(rows(recording / "rank-00000" / "iterations.csv"))
    expected = iterations - (name == "Accelerate")  # from step to step, where nothing says when the first one begins
    require(seen == expected, f"{seen} iterations instead of {expected}")
    return f"{seen} iterations, same losses"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--command")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=4, help="processes of a pipeline")
    parser.add_argument("names", nargs="*", help="of schedules and trainers; all without any")
    arguments = parser.parse_args()
    names = arguments.names or [*SCHEDULES, *TRAINERS]
    unknown = sorted(set(names) - {*SCHEDULES, *TRAINERS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there; name it by --library")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lg-attach-") as folder:
        jobs = Jobs(arguments, Path(folder))
        for name in names:
            check = check_schedule if name in SCHEDULES else check_trainer
            try:
                result = check(jobs, name, arguments.iterations)
                print(f"| {name} | {'ok' if result else 'SKIPPED'} | {result or 'it is not installed'} |", flush=True)
            except (Failed, subprocess.TimeoutExpired, OSError) as error:
                failed += 1
                print(f"| {name} | FAILED | {error} |", flush=True)
    print(f"{len(names) - failed} passed or skipped, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
