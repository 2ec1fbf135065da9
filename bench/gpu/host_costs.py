#!/usr/bin/env python3
"""Time that the CPU takes to issue the work of a transformer layer: where HostCosts of the estimator come from.

    host_costs.py

A layer in eager PyTorch with attention in kernels of its own (norm, projections, scores, softmax, dropout, values,
residual, MLP: 14 operators), so small that the GPU always waits. Prints the time per layer forward and backward, with
and without activation checkpointing, and with and without two all-reduces (of one rank). Needs a GPU; changes no
setting.
"""

import math
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

LAYERS, HIDDEN, SEQUENCE, HEADS = 24, 256, 128, 16
REPEATS, WARMUP = 12, 4


class Layer(torch.nn.Module):
    def __init__(self, collectives):
        super().__init__()
        self.collectives = collectives
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(HIDDEN) for _ in range(2))
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def attention(self, x):
        tokens, batch, _ = x.shape
        width = HIDDEN // HEADS
        heads = self.qkv(x).view(tokens, batch * HEADS, 3 * width)
        query, key, value = (part.transpose(0, 1) for part in heads.chunk(3, dim=-1))
        empty = torch.empty(batch * HEADS, tokens, tokens, dtype=x.dtype, device=x.device)
        scores = torch.baddbmm(empty, query, key.transpose(1, 2), beta=0.0, alpha=1 / math.sqrt(width))
        scores = F.dropout(torch.softmax(scores, -1), 0.1)
        mixed = torch.bmm(scores, value)
        return mixed.view(batch, HEADS, tokens, width).permute(2, 0, 1, 3).reshape(tokens, batch, HIDDEN)

    def summed(self, x):
        if self.collectives:
            dist.all_reduce(x)
        return x

    def forward(self, x):
        mixed = self.summed(F.linear(self.attention(self.norms[0](x)), self.output.weight))
        x = x + F.dropout(mixed + self.output.bias, 0.1)
        inner = F.gelu(F.linear(self.norms[1](x), self.up.weight) + self.up.bias)
        inner = self.summed(F.linear(inner, self.down.weight))
        return x + F.dropout(inner + self.down.bias, 0.1)


def seconds(run):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, result


def measure(collectives, checkpointed):
    layers = torch.nn.ModuleList(Layer(collectives) for _ in range(LAYERS)).half().cuda()
    x = torch.randn(SEQUENCE, 1, HIDDEN, device="cuda", dtype=torch.half, requires_grad=True)

    def forward():
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=True) if checkpointed else layer(y)
        return y.sum()

    times = []
    for _ in range(REPEATS):
        forward_s, loss = seconds(forward)
        backward_s, _ = seconds(loss.backward)
        times.append((forward_s / LAYERS, backward_s / LAYERS))
    return [1e6 * statistics.median(column) for column in zip(*times[WARMUP:])]


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("nccl", rank=0, world_size=1)
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    print("| all-reduces | checkpointing | forward, us a layer | backward |\n|---|---|---|---|")
    for collectives in (False, True):
        for checkpointed in (False, True):
            forward_us, backward_us = measure(collectives, checkpointed)
            print(f"| {2 * collectives} | {'yes' if checkpointed else 'no'} | {forward_us:.0f} | {backward_us:.0f} |")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
