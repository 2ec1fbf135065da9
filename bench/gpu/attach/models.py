#!/usr/bin/env python3
"""Runs examples/attach/model_pipeline.py with its models: as one stage, as a pipeline, as a pipeline with Lowgear.

    bench/gpu/attach/models.py [--library liblowgear.so] [--command lowgear] [--ranks 2] [--iterations 100] [MODEL...]

Needs PyTorch 2.8 or newer, transformers and torchvision. MODEL may be a config.json of transformers. Checks of every
model: the pipeline's losses are those of the unsplit model (to 1e-4 in the first two iterations), and the same bits with
and without Lowgear; each unit of each rank once in every iteration, in the same order; nothing refused. Ends with 1 when
a check fails. Pipelines run on GPUs where each rank has one, else on CPUs.

Without --command, jobs find the variables set that `lowgear run --record` sets, as the program may not be there.
"""

import argparse
import functools
import sys
import tempfile
from pathlib import Path

from checks import ROOT, Job, Jobs, add_arguments, check_rank, require, table, torchrun, units_by_iteration

MODELS = ("gpt2", "llama", "bloom", "gpt-neox", "bert", "t5-encoder", "wide-resnet")
MICROBATCHES = 8
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
TOLERANCE = 1e-4


def job_of(model, ranks, iterations):
    words = torchrun(ranks, ROOT / "examples" / "attach" / "model_pipeline.py", model, "--iterations", iterations,
                     "--deterministic", "--microbatches", MICROBATCHES, "--out")
    return Job(words, variables=DETERMINISTIC)


def expected_of(rank, iterations):
    return {"stages": [rank], "microbatches": MICROBATCHES, "forwards": [[rank] * MICROBATCHES] * iterations}


def check(jobs, model, iterations):
    name = Path(model).stem
    unsplit, _ = jobs.run(f"{name}-unsplit", job_of(model, 1, 2))
    ranks, recording, _ = jobs.both(name, job_of(model, jobs.arguments.ranks, iterations))
    expected = [float.fromhex(loss) for loss in unsplit[0]["losses"]]
    pipeline = [float.fromhex(loss) for loss in ranks[-1]["losses"]]
    apart = max(abs(one - other) / one for one, other in zip(expected, pipeline))
    require(apart <= TOLERANCE, f"the pipeline's first losses are {pipeline[:2]}, those of the unsplit model {expected}")
    units = [len(check_rank(units_by_iteration(recording, rank), expected_of(rank, iterations), iterations))
             for rank in range(len(ranks))]
    return f"{'/'.join(map(str, units))} units, {iterations} iterations, same losses; unsplit to {apart:.0e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("models", nargs="*", default=MODELS)
    arguments = parser.parse_args()
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there; name it by --library")
    with tempfile.TemporaryDirectory(prefix="lg-models-") as folder:
        jobs = Jobs(arguments, Path(folder))
        return table((model, functools.partial(check, jobs, model, arguments.iterations)) for model in arguments.models)


if __name__ == "__main__":
    sys.exit(main())
