"""A pipeline job that knows nothing of Lowgear: train.py ORDER ITERATIONS WEIGHTS. Starts its ranks as torchrun does, and
runs a schedule in PyTorch's notation from the file ORDER. WEIGHTS says how much more work each stage has than the first, as
1,1.4. With JOB_SIMULATION, a library of simulated GPUs, units are kernels there."""

import ctypes
import os
import re
import subprocess
import sys

from torch.distributed.pipelining import schedules, stage

ORDER, ITERATIONS, WEIGHTS = sys.argv[1], int(sys.argv[2]), [float(word) for word in sys.argv[3].split(",")]
WORK_S = {"F": 0.04, "B": 0.08, "I": 0.04, "W": 0.05}
ROWS = open(ORDER, encoding="utf-8").read().split()


def launch():
    ranks = []
    for rank in range(len(ROWS)):
        variables = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(ROWS))}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=variables))
    sys.exit(max(rank.wait() for rank in ranks))


def kernels(rank):
    library = os.environ.get("JOB_SIMULATION")
    if not library:
        return lambda letter, weight: None
    simulation = ctypes.CDLL(library)
    simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
    simulation.lowgear_simgpu_attach(rank)
    return lambda letter, weight: simulation.lowgear_simgpu_run_kernel(
        rank, 0.75 * weight * WORK_S[letter], 0.25 * weight * WORK_S[letter], 0.4, 0.3, None)


def train(rank):
    run = kernels(rank)
    indices = sorted({int(index) for index in re.findall(r"(\d+)[FBIW]", ROWS[rank])})
    stages = [stage.PipelineStage(index, len(WEIGHTS), rank, len(ROWS), lambda letter, at=index: run(letter, WEIGHTS[at]))
              for index in indices]
    microbatches = 1 + max(int(number) for number in re.findall(r"F(\d+)", ROWS[rank]))
    schedule = schedules._PipelineScheduleRuntime(stages, microbatches)
    schedule._load_csv(ORDER)
    for _ in range(ITERATIONS):
        schedule.step()


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    launch()
