"""A pipeline job that knows nothing of Lowgear: torchrun ... pipeline.py SCHEDULE ITERATIONS OUT. Each rank uses a GPU
where there is one for each, else all use CPUs. With --order FILE it runs the order of that file with the stages that
SCHEDULE has; --compile compiles every stage, --checkpoint recomputes its activations.

Every rank writes to OUT which microbatches its modules have computed, from hooks of PyTorch, and the losses of the last
stage as bits. Evaluates once in between where the schedule can."""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, _PipelineScheduleRuntime, get_schedule_class
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--order")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--checkpoint", action="store_true")
parser.add_argument("schedule")
parser.add_argument("iterations", type=int)
parser.add_argument("out")
OPTIONS = parser.parse_args()
NAME, ITERATIONS, OUT = OPTIONS.schedule, OPTIONS.iterations, OPTIONS.out
MICROBATCHES, WIDTH, ROWS = 8, 16, 4
SPLIT = ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")  # not every release of PyTorch can evaluate by them


def stages_of(rank, world):
    if issubclass(get_schedule_class(NAME), PipelineScheduleSingle):
        return [rank], world
    if NAME in ("ZBVZeroBubble", "DualPipeV"):
        return [rank, 2 * world - 1 - rank], 2 * world
    return [rank, rank + world], 2 * world


class Checkpointed(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batch):
        return checkpoint(self.module, batch, use_reentrant=False)


def block(index, device):
    torch.manual_seed(index)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).to(device)
    module = Checkpointed(module) if OPTIONS.checkpoint else module
    return torch.compile(module) if OPTIONS.compile else module


def schedule_of(stages):
    loss = torch.nn.functional.mse_loss
    if OPTIONS.order:
        schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss)
        schedule._load_csv(OPTIONS.order)
        return schedule
    kind = get_schedule_class(NAME)
    return kind(stages[0] if issubclass(kind, PipelineScheduleSingle) else stages, MICROBATCHES, loss_fn=loss)


def main():
    world = int(os.environ["WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= world
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    rank = dist.get_rank()
    indices, count = stages_of(rank, world)
    modules = [block(index, device) for index in indices]
    forwards = []
    for index, module in zip(indices, modules):
        module.register_forward_pre_hook(
            lambda module, args, index=index: forwards.append(index) if torch.is_grad_enabled() else None)
    stages = [PipelineStage(module, index, count, device) for index, module in zip(indices, modules)]
    schedule = schedule_of(stages)
    optimizers = [torch.optim.SGD(module.parameters(), 0.05) for module in modules]
    generator = torch.Generator().manual_seed(7)
    bits, per_iteration = [], []
    for iteration in range(ITERATIONS):
        batch = torch.randn(MICROBATCHES * ROWS, WIDTH, generator=generator).to(device)
        target = torch.randn(MICROBATCHES * ROWS, WIDTH, generator=generator).to(device)
        inputs = (batch,) if 0 in indices else ()
        last = count - 1 in indices
        losses = []
        before = len(forwards)
        schedule.step(*inputs, **({"target": target, "losses": losses} if last else {}))
        per_iteration.append(forwards[before:])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        bits.append([loss.item().hex() for loss in losses])
        if iteration == ITERATIONS // 2 and NAME not in SPLIT and not OPTIONS.order:
            with torch.no_grad():
                schedule.eval(*inputs, **({"target": target, "losses": []} if last else {}))
    with open(os.path.join(OUT, f"rank-{rank}.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": bits, "forwards": per_iteration, "stages": indices, "microbatches": MICROBATCHES}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
