#!/usr/bin/env python3
"""The job of pipeline.yaml with torch.distributed.pipelining: what the trainer is compared with.

    torchrun --standalone --nproc-per-node 4 baseline_pipelining.py [--steps N] [--compile none|block|whole]
        [--order 1f1b|interleaved|zbv] [--layers 13,11]

A Llama of 1.36 billion parameters on one pipeline stage for each rank, or several: bf16, 16 microbatches of 4 x 2048
tokens, fused AdamW, attention by scaled_dot_product_attention. Energy is that of the GPUs' own counters, which are only
read. Rank 0 prints one JSON object; the first steps do not count, in which torch.compile works.

--compile: `block` compiles each layer by itself, `whole` a whole stage; both compile the loss, whose logits are the
largest tensor of all.
--order: Schedule1F1B, ScheduleInterleaved1F1B or ScheduleZBVZeroBubble, which fails with compiled layers in PyTorch 2.11.
--layers: of each stage, in order; else as many in all, one stage a rank, or two for the last two orders.
"""

import argparse
import ctypes
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import ScheduleZBVZeroBubble

LAYERS, HIDDEN, INTERMEDIATE, HEADS, VOCABULARY, TIME = 24, 2048, 5632, 16, 32000, 2048
MICROBATCHES, MICROBATCH = 16, 4
WARM_UP = {"none": 2, "block": 4, "whole": 4}


class Energy:
    """The energy counter of one GPU, in joules."""

    def __init__(self, index):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.device))

    def read_j(self):
        millijoules = ctypes.c_ulonglong()
        self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules))
        return millijoules.value / 1000


def rotary(positions, width):
    frequencies = 1.0 / (10000.0 ** (torch.arange(0, width, 2).float() / width))
    angles = torch.outer(torch.arange(positions).float(), frequencies)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def turn(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(HIDDEN, eps=1e-5)
        self.mlp_norm = nn.RMSNorm(HIDDEN, eps=1e-5)
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.q, self.k, self.v, self.o = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up = linear(HIDDEN, INTERMEDIATE), linear(HIDDEN, INTERMEDIATE)
        self.down = linear(INTERMEDIATE, HIDDEN)
        cosine, sine = rotary(TIME, HIDDEN // HEADS)
        self.register_buffer("cosine", cosine.to(torch.bfloat16), persistent=False)
        self.register_buffer("sine", sine.to(torch.bfloat16), persistent=False)

    def forward(self, x):
        batch, time_, _ = x.shape
        normed = self.attention_norm(x)
        heads = lambda y: y.view(batch, time_, HEADS, -1).transpose(1, 2)
        q = turn(heads(self.q(normed)), self.cosine, self.sine)
        k = turn(heads(self.k(normed)), self.cosine, self.sine)
        mixed = F.scaled_dot_product_attention(q, k, heads(self.v(normed)), is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, time_, HIDDEN))
        normed = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Part(nn.Module):
    """The layers of one stage."""

    def __init__(self, stage, layers):
        super().__init__()
        last = stage == len(layers) - 1
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN) if stage == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(layers[stage]))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-5) if last else None
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False) if last else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


def compile_part(part, how):
    if how == "whole":
        part.compile()
    elif how == "block":
        for block in part.blocks:
            block.compile()


def stages_of(rank, ranks, layers, order):
    """The stages of a rank: every `ranks`-th one, or for zbv two that lie as on a V."""
    if order == "zbv":
        return [rank, len(layers) - 1 - rank]
    return list(range(rank, len(layers), ranks))


def made_schedule(order, stages, loss):
    if order == "1f1b":
        return Schedule1F1B(stages[0], MICROBATCHES, loss_fn=loss)
    if order == "interleaved":
        return ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_fn=loss)
    return ScheduleZBVZeroBubble(stages, MICROBATCHES, loss_fn=loss)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="that count")
    parser.add_argument("--compile", choices=list(WARM_UP), default="none")
    parser.add_argument("--order", choices=["1f1b", "interleaved", "zbv"], default="1f1b")
    parser.add_argument("--layers", type=lambda text: [int(count) for count in text.split(",")])
    asked = parser.parse_args()
    count = int(os.environ["WORLD_SIZE"]) * (1 if asked.order == "1f1b" else 2)
    asked.layers = asked.layers or [LAYERS // count] * count
    if len(asked.layers) != count or sum(asked.layers) != LAYERS:
        parser.error(f"--layers: {count} numbers whose sum is {LAYERS}")
    return asked


def main():
    asked = arguments()
    warm_up = WARM_UP[asked.compile]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(rank)
    numbers = stages_of(rank, ranks, asked.layers, asked.order)
    parts = nn.ModuleList(Part(stage, asked.layers) for stage in numbers).to(device=device, dtype=torch.bfloat16)
    for parameter in parts.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(parts.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for part in parts:
        compile_part(part, asked.compile)
    loss = loss_of if asked.compile == "none" else torch.compile(loss_of)
    stages = [PipelineStage(part, stage, len(asked.layers), device) for part, stage in zip(parts, numbers)]
    schedule = made_schedule(asked.order, stages, loss)
    energy = Energy(device.index)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (MICROBATCHES * MICROBATCH, TIME + 1), generator=generator).to(device)
    inputs = [tokens[:, :-1].contiguous()] if 0 in numbers else []
    losses = []
    outputs = {"target": tokens[:, 1:].contiguous(), "losses": losses} if len(asked.layers) - 1 in numbers else {}
    start_s = start_j = 0.0
    for step in range(warm_up + asked.steps):
        if step == warm_up:
            torch.cuda.synchronize()
            dist.barrier()
            start_s, start_j = time.perf_counter(), energy.read_j()
        losses.clear()
        schedule.step(*inputs, **outputs)
        torch.nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    dist.barrier()
    step_s = (time.perf_counter() - start_s) / asked.steps
    joules = torch.tensor([(energy.read_j() - start_j) / asked.steps], device=device, dtype=torch.float64)
    dist.all_reduce(joules)
    if rank == 0:
        token_count = MICROBATCHES * MICROBATCH * TIME
        print(json.dumps({"system": f"torch.distributed.pipelining {torch.__version__}", "compile": asked.compile,
                          "order": asked.order, "layers": asked.layers, "step_s": step_s,
                          "tokens_per_s": token_count / step_s, "step_energy_j": joules.item(),
                          "j_per_token": joules.item() / token_count}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
