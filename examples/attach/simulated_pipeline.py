#!/usr/bin/env python3
"""Trains a two-stage pipeline of torch.distributed.pipelining on CPUs (gloo) whose stages give simulated GPUs work.

    lowgear run --server unix:state/server.sock -- python3 examples/attach/simulated_pipeline.py

LOWGEAR_NVML and LOWGEAR_SIMGPU name the GPUs (lowgear simgpu create). Each forward and backward also runs a kernel on
its rank's GPU, which takes longer and draws less at a lower clock. PyTorch 2.6 or newer; nothing here marks units.

    lowgear run --steps profile.csv -- python3 examples/attach/simulated_pipeline.py 150 documents

With `documents` microbatches differ in length, and the first rank tells the lengths an iteration ahead.
"""
import collections
import ctypes
import os
import random
import sys
import time
from subprocess import Popen

if "RANK" not in os.environ:  # the script starts its own ranks: Debian 13's PyTorch lacks libuv, which torchrun needs
    os.environ.setdefault("MASTER_PORT", "29511")
    os.environ.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", USE_LIBUV="0")
    ranks = [Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01"]
    sys.exit(max(abs(process.wait()) for process in ranks))

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

VARY = "documents" in sys.argv
if VARY:
    import lowgear  # installed, or there under `lowgear run` once PyTorch is imported


def simulated_gpu(index):
    """Returns kernel(time_s), which blocks for that time at the GPU's highest clock, and longer at others."""
    library = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
    library.lowgear_simgpu_error.restype = ctypes.c_char_p

    def call(name, *values):
        if getattr(library, name)(index, *values):
            raise SystemExit(f"simulated GPU {index}: {library.lowgear_simgpu_error().decode()}")

    def kernel(time_s):
        figures = (0.8 * time_s, 0.2 * time_s, 0.5, 0.3)  # s of compute and of memory, shares of the power of both
        call("lowgear_simgpu_run_kernel", *map(ctypes.c_double, figures), None)
    call("lowgear_simgpu_attach")  # as a CUDA context does: the GPU leaves its idle clock
    return kernel


def documents(iteration):
    """Lengths of the documents of each microbatch, in tokens: what a loader would know."""
    chance = random.Random(iteration)
    return [[max(1, min(4096, round(chance.lognormvariate(6, 1)))) for _ in range(4)] for _ in range(4)]


def share(lengths):
    """Of a microbatch's time in that of a usual one: a part by tokens, a part by squared lengths (attention)."""
    return sum(length / 4000 + length ** 2 / 8e6 for length in lengths) if VARY else 1


class OnGpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, kernel, time_s):
        ctx.work = kernel, 2 * time_s
        kernel(time_s)
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.work[0](ctx.work[1])
        return gradient, None, None


class Stage(torch.nn.Module):
    def __init__(self, width, kernel, time_s):
        super().__init__()
        self.layer, self.kernel, self.time_s, self.coming = torch.nn.Linear(width, width), kernel, time_s, []

    def forward(self, values):
        if not torch.is_grad_enabled():  # PyTorch infers shapes
            return self.layer(values)
        return OnGpu.apply(self.layer(values), self.kernel, self.time_s * self.coming.pop(0))


iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 150
rank, width, microbatches = int(os.environ["RANK"]), 64, 4
dist.init_process_group("gloo")
batch, kept = dist.batch_isend_irecv, collections.deque(maxlen=64)  # PyTorch 2.6 drops sends that nobody holds
dist.batch_isend_irecv = lambda operations: kept.append(batch(operations)) or list(kept[-1])
module = Stage(width, simulated_gpu(int(os.environ["LOCAL_RANK"])), (0.06, 0.09)[rank])
stage = PipelineStage(module, rank, 2, torch.device("cpu"))
schedule = Schedule1F1B(stage, microbatches, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(module.parameters(), 1e-2)
for iteration in range(iterations):
    for told in (iteration, iteration + 1) if VARY and stage.is_first else ():  # twice the same is told once
        lowgear.tell_lengths(documents(told), iteration=told)
    module.coming = [share(lengths) for lengths in documents(iteration)]
    values, start_s = torch.randn(8 * microbatches, width), time.monotonic()
    schedule.step(*((values,) if stage.is_first else ()), **({"target": values} if stage.is_last else {}))
    optimizer.step()
    optimizer.zero_grad()
    if stage.is_last and iteration % 10 == 0:
        print(f"iteration {iteration}: {time.monotonic() - start_s:.3f} s", flush=True)
dist.destroy_process_group()
