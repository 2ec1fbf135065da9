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
import functools
import importlib.util
import sys
import tempfile
from pathlib import Path

from checks import (HERE, Job, Jobs, Skipped, add_arguments, check_rank, require, rows, table, torchrun,
                    units_by_iteration)
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


def check_schedule(jobs, name, iterations):
    words = [*torchrun(jobs.arguments.ranks, HERE / "jobs" / "pipeline.py"), *VARIANTS.get(name, []), name.split()[0],
             iterations]
    ranks, recording, _ = jobs.both(name, Job(words))
    units = [len(check_rank(units_by_iteration(recording, at), rank, iterations)) for at, rank in enumerate(ranks)]
    return f"{'/'.join(map(str, units))} units, {iterations} iterations, same losses"


def check_trainer(jobs, name, iterations):
    script, packages = TRAINERS[name]
    if not any(importlib.util.find_spec(package) for package in packages):
        raise Skipped("it is not installed")
    _, recording, _ = jobs.both(script, Job([sys.executable, HERE / "jobs" / script, iterations]))
    seen = len(rows(recording / "rank-00000" / "iterations.csv"))
    expected = iterations - (name == "Accelerate")  # from step to step, where nothing says when the first one begins
    require(seen == expected, f"{seen} iterations instead of {expected}")
    return f"{seen} iterations, same losses"


def check_cuda_graph(jobs, name, iterations):
    job = Job([sys.executable, HERE / "jobs" / "graph.py", iterations])
    plain, _ = jobs.run("graph", job)
    if not plain:
        raise Skipped("it needs a GPU")
    attached, said = jobs.run("graph", job, jobs.folder / "graph-recording")
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
    add_arguments(parser)
    parser.add_argument("--simulated", type=Path, help="simulated NVML, whose GPUs follow the plans of orders")
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
    with tempfile.TemporaryDirectory(prefix="lg-attach-") as folder:
        jobs = Jobs(arguments, Path(folder))
        return table((name, functools.partial(check_of(name), jobs, name, arguments.iterations)) for name in names)


if __name__ == "__main__":
    sys.exit(main())
