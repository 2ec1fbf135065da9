#!/usr/bin/env python3
"""The job of pipeline.yaml with torch.distributed.pipelining: what the trainer is compared with.

    torchrun --standalone --nproc-per-node 4 baseline_pipelining.py [--steps N] [--compile none|block|whole]

A Llama of 1.36 billion parameters on as many pipeline stages as there are ranks: Schedule1F1B, bf16, 16 microbatches of
4 x 2048 tokens, fused AdamW, attention by scaled_dot_product_attention. Energy is that of the GPUs' own counters, which
are only read. Rank 0 prints one JSON object; the first steps do not count, in which torch.compile works.

--compile: `block` compiles each layer by itself, `whole` a rank's whole stage; both compile the loss, whose logits are
the largest tensor of all.
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
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

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
    def __init__(self, rank, ranks):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN) if rank == 0 else None
        count = LAYERS // ranks
        self.blocks = nn.ModuleList(Block() for _ in range(count))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-5) if rank == ranks - 1 else None
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False) if rank == ranks - 1 else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


def compiled(part, how):
    """The part and the loss, compiled as asked for."""
    if how == "none":
        return part, loss_of
    if how == "whole":
        part.compile()
    else:
        for block in part.blocks:
            block.compile()
    return part, torch.compile(loss_of)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="that count")
    parser.add_argument("--compile", choices=list(WARM_UP), default="none")
    return parser.parse_args()


def main():
    asked = arguments()
    warm_up = WARM_UP[asked.compile]
    steps = warm_up + asked.steps
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(rank)
    part = Part(rank, ranks).to(device=device, dtype=torch.bfloat16)
    for parameter in part.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(part.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    part, loss = compiled(part, asked.compile)
    stage = PipelineStage(part, rank, ranks, device)
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss)
    energy = Energy(device.index)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (MICROBATCHES * MICROBATCH, TIME + 1), generator=generator).to(device)
    ids, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    start_s = start_j = 0.0
    losses = []
    for step in range(steps):
        if step == warm_up:
            torch.cuda.synchronize()
            dist.barrier()
            start_s, start_j = time.perf_counter(), energy.read_j()
        losses.clear()
        if ranks == 1:
            schedule.step(ids, target=targets, losses=losses)
        elif rank == 0:
            schedule.step(ids)
        elif rank == ranks - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)
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
                          "pp": ranks, "step_s": step_s,
                          "tokens_per_s": token_count / step_s, "step_energy_j": joules.item(),
                          "j_per_token": joules.item() / token_count}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
