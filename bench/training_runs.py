"""Runs of `lowgear train` whose steps are studied: on one thread a rank."""

import argparse
import json
import os
from pathlib import Path
import subprocess

WARM_UP_STEPS = 3


def study_arguments(description, runs, steps):
    """Which build is studied, and how often; `runs` and `steps` unless the command line says otherwise."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    release = Path(__file__).resolve().parent.parent / "build" / "release"
    parser.add_argument("build", nargs="?", type=Path, default=release, help="folder of the build")
    parser.add_argument("--runs", type=int, default=runs, help="runs of each (%(default)s)")
    parser.add_argument("--steps", type=int, default=steps, help="steps of a run (%(default)s)")
    return parser.parse_args()


def without_gpus(folder):
    """An environment in which ranks find neither an agent nor a GPU."""
    return {"LOWGEAR_NVML": str(folder / "none"), "LOWGEAR_AGENT_SOCKET": str(folder / "none")}


def train(lowgear, job, steps, metrics, options=(), environment=None):
    """What the run wrote of each of its steps after the warm-up. Ends the study when the run fails."""
    command = [lowgear, "train", str(job), "--steps", str(steps), "--json", "--metrics", str(metrics), *options]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(environment or {})}
    result = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return [json.loads(line) for line in metrics.read_text().splitlines()][WARM_UP_STEPS:]
