"""Two stages that run microbatches of different lengths and tell them: documents.py ITERATIONS HOW. HOW is told, untold,
changed, beyond or broken. The work of a unit is 40 us a token forwards and 80 us backwards, half of it on the second stage."""

import ctypes
import os
import random
import subprocess
import sys
import time

from torch.distributed import distributed_c10d
from torch.distributed.pipelining import schedules, stage
import lowgear  # which `lowgear run` has brought by now

ITERATIONS, HOW, RANKS, MICROBATCHES = int(sys.argv[1]), sys.argv[2], 2, 3
FORWARD_S, BACKWARD_S = 40e-6, 80e-6


def lengths_of(iteration):
    chance = random.Random(iteration)
    return [[chance.randrange(100, 500) for _ in range(3)] for _ in range(MICROBATCHES)]


def tell(iteration):
    lengths = lengths_of(iteration)
    if HOW == "beyond":
        lengths[1].append(100_000)
    if HOW != "untold":
        lowgear.tell_lengths(7 if HOW == "broken" else lengths, iteration=iteration)
    if HOW == "changed":
        lowgear.tell_lengths(lengths[::-1], iteration=iteration)


def meet(rank, iteration):
    """As ranks of a pipeline do, which wait for each other's tensors."""
    store = distributed_c10d._get_default_store()
    store.set(f"job/{iteration}/{rank}", "")
    while not store.check([f"job/{iteration}/{other}" for other in range(RANKS)]):
        time.sleep(0.005)


def train(rank):
    simulation = ctypes.CDLL(os.environ["JOB_SIMULATION"])
    simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
    simulation.lowgear_simgpu_attach(rank)
    lengths, done = [], {"F": 0, "B": 0}

    def run(letter):
        tokens = sum(lengths[done[letter] % MICROBATCHES])
        done[letter] += 1
        time_s = tokens * (FORWARD_S if letter == "F" else BACKWARD_S) / (1 + rank)
        simulation.lowgear_simgpu_run_kernel(rank, 0.75 * time_s, 0.25 * time_s, 0.4, 0.3, None)

    schedule = schedules.Schedule1F1B(stage.PipelineStage(rank, RANKS, rank, RANKS, run), MICROBATCHES)
    for iteration in range(ITERATIONS):
        lengths[:] = lengths_of(iteration)
        if rank == 0:
            if HOW == "told" and iteration > 0:
                tell(iteration)  # the same again, which changes nothing
            tell(iteration + 1)
        schedule.step()
        meet(rank, iteration)


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={
        **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}) for rank in range(RANKS)]
    sys.exit(max(rank.wait() for rank in ranks))
