#!/usr/bin/env python3
"""Runs unmodified TorchTitan, Megatron Core and DeepSpeed as pipelines of two GPUs, with and without Lowgear.

    bench/gpu/attach/frameworks.py --sources FOLDER [--library liblowgear.so] [--command lowgear] [NAME...]

FOLDER holds what is not installed: torchtitan, Megatron-LM and DeepSpeed, each as its repository has it, and python with
packages that they need. What is missing is named in the table, and its jobs are skipped. Checks of every job: attached to
the right framework, nothing refused, each unit of each rank once in every iteration, in the order that the framework's own
schedule lists (1F1B: the one of its definition), forwards in the order that hooks of PyTorch have seen, the same order in
all iterations, evaluations not marked, and the same losses bit for bit as without. Ends with 1 when a check fails.

TorchTitan runs as `torchrun -m torchtitan.train` with its configuration debug_model.toml, its test data and tokenizer.

Without --command, jobs find the variables set that `lowgear run --record` sets, as the program may not be there.
"""

import argparse
import functools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple, Tuple

from checks import HERE, Job, Jobs, Skipped, add_arguments, check_rank, require, table, torchrun, units_by_iteration

RANKS, MICROBATCHES = 2, 8
PIPELINING = "torch.distributed.pipelining"
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


class Framework(NamedTuple):
    """A job: how it starts, the folder of its source, modules that it needs, and what Lowgear says that it attached to."""

    start: Callable
    source: str
    needs: Tuple[str, ...]
    attached: str
    on_cpus: bool = False


def titan(schedule, checkpointing, sources, iterations):
    words = torchrun(
        RANKS, "-m", "torchtitan.train", "--job.config_file", "torchtitan/models/llama3/train_configs/debug_model.toml",
        "--training.steps", iterations, "--training.seq_len", 128, "--training.local_batch_size", MICROBATCHES,
        "--parallelism.pipeline_parallel_degree", RANKS, "--parallelism.pipeline_parallel_schedule", schedule,
        "--parallelism.pipeline_parallel_microbatch_size", 1, "--activation_checkpoint.mode", checkpointing,
        "--metrics.enable_tensorboard", "--debug.seed", 42, "--debug.deterministic", "--debug.deterministic_warn_only",
        "--experimental.custom_import", "torchtitan_observer", "--job.dump_folder")
    return Job(words, python_path(sources, "torchtitan") + [HERE / "jobs"], sources / "torchtitan", DETERMINISTIC)


def megatron(chunks, sources, iterations):
    # One connection for the GPU's kernels, as Megatron's own start checks
    variables = {**DETERMINISTIC, "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    return Job(torchrun(RANKS, HERE / "jobs" / "megatron_gpt.py", chunks, iterations), python_path(sources, "Megatron-LM"),
               sources / "Megatron-LM", variables)


def deepspeed(sources, iterations):
    return Job(torchrun(RANKS, HERE / "jobs" / "deepspeed_pipeline.py", iterations), python_path(sources, "DeepSpeed"),
               sources / "DeepSpeed", {**DETERMINISTIC, "DS_BUILD_OPS": "0"})


def python_path(sources, name):
    return [sources / name, sources / "python"]


def _titan(schedule, checkpointing="none"):
    needs = ("torchtitan.train", "torchtitan.models.llama3", "tensorboard", "datasets")
    return Framework(functools.partial(titan, schedule, checkpointing), "torchtitan", needs, PIPELINING)


def _megatron(chunks):
    return Framework(functools.partial(megatron, chunks), "Megatron-LM", ("megatron.core.models.gpt.gpt_model",),
                     "megatron core")


JOBS = {
    "TorchTitan-1F1B": _titan("1F1B"),
    "TorchTitan-Interleaved1F1B": _titan("Interleaved1F1B"),
    "TorchTitan-ZBVZeroBubble": _titan("ZBVZeroBubble"),
    "TorchTitan-checkpointing": _titan("1F1B", "selective"),
    "Megatron-1F1B": _megatron(1),
    "Megatron-interleaved": _megatron(2),
    "DeepSpeed": Framework(deepspeed, "DeepSpeed", ("deepspeed.pipe",), "deepspeed", on_cpus=True),
}


def one_forward_one_backward(rank):
    """1F1B by its definition: a forward ahead for each rank that comes after, then one of each in turn."""
    forwards = [("forward", rank, microbatch) for microbatch in range(MICROBATCHES)]
    backwards = [("backward", rank, microbatch) for microbatch in range(MICROBATCHES)]
    ahead = RANKS - 1 - rank
    turns = [unit for pair in zip(forwards[ahead:], backwards) for unit in pair]
    return forwards[:ahead] + turns + backwards[MICROBATCHES - ahead:]


@functools.cache
def probe(jobs, source, needs):
    """Exit status and errors of a process that imports what a framework needs; 3 where there are too few GPUs."""
    imports = "\n".join(f"import {name}" for name in needs)
    count = f"import torch\nraise SystemExit(0 if torch.cuda.device_count() >= {RANKS} else 3)"
    job = Job([], python_path(jobs.arguments.sources, source))
    result = subprocess.run([sys.executable, "-c", f"{imports}\n{count}"], capture_output=True, text=True, check=False,
                            env=jobs.environment(job, None), cwd=jobs.arguments.sources / source, timeout=300)
    return result.returncode, result.stderr


def require_here(jobs, framework):
    """Raises Skipped where a job cannot run, with what is missing."""
    folder = jobs.arguments.sources / framework.source
    if not folder.is_dir():
        raise Skipped(f"{folder} is not there")
    status, errors = probe(jobs, framework.source, framework.needs)
    if status == 3 and not framework.on_cpus:
        raise Skipped(f"it needs {RANKS} GPUs")
    missing = [line for line in errors.splitlines() if line.startswith("ModuleNotFoundError")]
    if status != 3 and missing:
        raise Skipped(missing[-1])
    require(status in (0, 3), f"it cannot be imported: {errors[-3000:]}")


def check(jobs, name, iterations):
    framework = JOBS[name]
    require_here(jobs, framework)
    job = framework.start(jobs.arguments.sources, iterations)
    ranks, recording, said = jobs.both(name, job)
    attached = [line for line in said.splitlines() if "lowgear: attached to " in line]
    require(len(attached) == 1 and f"attached to {framework.attached}" in attached[0], f"it said {attached}")
    require(len(ranks) == RANKS, f"{len(ranks)} ranks instead of {RANKS}")
    counts = []
    for at, rank in enumerate(ranks):
        units = check_rank(units_by_iteration(recording, at), rank, iterations)
        listed = [tuple(unit) for unit in rank["listed"] or one_forward_one_backward(at)]
        difference = next((pair for pair in zip(listed, units) if pair[0] != pair[1]), None)
        require(listed == units, f"rank {at}: {len(units)} units, {len(listed)} are listed; listed and seen: {difference}")
        counts.append(len(units))
    framework_seen = attached[0].split("attached to ")[1].split(":")[0]
    return f"{framework_seen}: {'/'.join(map(str, counts))} units, {iterations} iterations, same losses"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--sources", type=Path, required=True, help="folder with the frameworks' sources")
    parser.add_argument("--limit-s", type=float, default=120, help="longest time of one run of a job")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(JOBS)}; all without any")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(JOBS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there; name it by --library")
    arguments.library, arguments.sources = arguments.library.resolve(), arguments.sources.resolve()
    with tempfile.TemporaryDirectory(prefix="lg-frameworks-") as folder:
        jobs = Jobs(arguments, Path(folder), arguments.limit_s)
        return table((name, functools.partial(check, jobs, name, arguments.iterations))
                     for name in arguments.names or JOBS)


if __name__ == "__main__":
    sys.exit(main())
