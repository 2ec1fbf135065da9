#!/usr/bin/env python3
"""Runs real jobs of PyTorch's pipelining, transformers, Lightning and Accelerate with and without Lowgear.

    bench/gpu/attach/attach_checks.py [--library liblowgear.so] [--command lowgear] [--simulated libnvidia-ml.so.1]
                                      [--iterations 100] [--ranks 4] [NAME...]

Needs PyTorch 2.8 or newer; jobs whose framework is missing are skipped, which the table says. Checks of every schedule:
each unit of each rank once in every iteration, forwards in the order in which PyTorch's own hooks have seen them, the
same order in all iterations, nothing refused, evaluations not marked, and the same losses bit for bit as without. The
same of 1F1B with compiled stages and with activation checkpointing. Of every trainer: the number of iterations, and the
losses. That an iteration captured in a CUDA graph is refused with the reason. Orders of plans: see orders.py; they need
--command. Ends with 1 when a check fails. Pipelines run on GPUs where each rank has one, else on CPUs; ZBVZeroBubble and
DualPipeV need GPUs, as gloo cannot send from a rank to itself.

Without --command, jobs find the variables set that `lowgear run --record` sets, as the program may not be there.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from checking import HERE, ROOT, Failed, Jobs, require, rows
from orders import ORDERS, check_lowering, check_order

SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
#: Name: script, package that it needs.
TRAINERS = {"transformers Trainer": ("trainer.py", ("transformers",)),
            "Lightning": ("lightning_job.py", ("lightning", "pytorch_lightning")),
            "Accelerate": ("accelerate_job.py", ("accelerate",))}
#: What does not change the units of 1F1B: options of the job.
VARIANTS = {"1F1B compiled": ["--compile"], "1F1B checkpointed": ["--checkpoint"]}
CUDA_GRAPH = "CUDA graph"
LOWERING = "lowering"


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
    words = [*jobs.torchrun("pipeline.py"), *VARIANTS.get(name, []), name.split()[0], iterations]
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


def check_cuda_graph(jobs, name, iterations):
    words = [sys.executable, HERE / "jobs" / "graph.py", iterations]
    plain, said = jobs.run(name, words)
    if not plain:
        return None
    recording = jobs.folder / "graph-recording"
    attached, said = jobs.run(name, words, recording)
    require("the iteration is captured in a CUDA graph" in said, f"it was not refused: {said[-3000:]}")
    require(said.count("measuring only") == 1, f"not said once: {said[-3000:]}")
    require(plain[0]["losses"] and plain[0]["losses"] == attached[0]["losses"], "the losses differ")
    return f"refused, {iterations} replays, same losses"


def check_of(name):
    if name in TRAINERS:
        return check_trainer
    if name in ORDERS:
        return check_order
    return {CUDA_GRAPH: check_cuda_graph, LOWERING: check_lowering}.get(name, check_schedule)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--command")
    parser.add_argument("--simulated", type=Path, help="simulated NVML, whose GPUs follow the plans of orders")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=4, help="processes of a pipeline")
    parser.add_argument("names", nargs="*", help="of checks; all without any")
    arguments = parser.parse_args()
    every = [*SCHEDULES, *VARIANTS, CUDA_GRAPH, LOWERING, *ORDERS, *TRAINERS]
    names = arguments.names or every
    unknown = sorted(set(names) - set(every))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there; name it by --library")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lg-attach-") as folder:
        jobs = Jobs(arguments, Path(folder))
        for name in names:
            try:
                result = check_of(name)(jobs, name, arguments.iterations)
                print(f"| {name} | {'ok' if result else 'SKIPPED'} | {result or 'what it needs is missing'} |", flush=True)
            except (Failed, subprocess.SubprocessError, OSError) as error:
                failed += 1
                print(f"| {name} | FAILED | {error} |", flush=True)
    print(f"{len(names) - failed} passed or skipped, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
