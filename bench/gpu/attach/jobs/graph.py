"""A job whose training step is one CUDA graph, and that knows nothing of Lowgear: graph.py ITERATIONS OUT. A pipeline of one
stage on one GPU; without a GPU it writes nothing."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B

ITERATIONS, OUT = int(sys.argv[1]), sys.argv[2]
MICROBATCHES, WIDTH, ROWS, WARM_UP = 4, 16, 4, 3


def main():
    if not torch.cuda.is_available():
        return
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).to(device)
    schedule = Schedule1F1B(PipelineStage(module, 0, 1, device), MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    batch, target = torch.randn(2, MICROBATCHES * ROWS, WIDTH, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        losses = []
        schedule.step(batch, target=target, losses=losses)
        optimizer.step()
        return losses

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = step()
    bits = []
    for _ in range(ITERATIONS):
        graph.replay()
        bits.append([loss.item().hex() for loss in losses])
    with open(os.path.join(OUT, "rank-0.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": bits}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
