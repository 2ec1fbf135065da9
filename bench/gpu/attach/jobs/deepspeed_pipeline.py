"""A pipeline of DeepSpeed that knows nothing of Lowgear: torchrun ... deepspeed_pipeline.py ITERATIONS OUT. Each rank uses
a GPU where there is one for each, else all use CPUs (with DS_ACCELERATOR=cpu).

Every rank writes to OUT which forwards its modules have computed, from hooks of PyTorch, what DeepSpeed's own schedule
lists, and the losses as bits. Evaluates once in between."""

import json
import os
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import LayerSpec, PipelineModule
from deepspeed.runtime.pipe.schedule import BackwardPass, ForwardPass, TrainSchedule

ITERATIONS, OUT = int(sys.argv[1]), sys.argv[2]
LAYERS, WIDTH, ROWS, MICROBATCHES = 4, 32, 4, 8


class Block(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, values):
        return torch.tanh(self.linear(values))


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(ROWS, WIDTH, generator=generator), torch.randn(ROWS, WIDTH, generator=generator)


def listed(stage, stages):
    """This stage's units by DeepSpeed's schedule: the n-th of a kind is of microbatch n."""
    units, counts = [], {ForwardPass: 0, BackwardPass: 0}
    for step in TrainSchedule(micro_batches=MICROBATCHES, stages=stages, stage_id=stage):
        for command in step:
            if type(command) in counts:
                units.append(("forward" if type(command) is ForwardPass else "backward", stage, counts[type(command)]))
                counts[type(command)] += 1
    return units


def main():
    ranks = int(os.environ["WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= ranks
    if on_gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.use_deterministic_algorithms(True, warn_only=True)
    deepspeed.init_distributed("nccl" if on_gpus else "gloo")
    module = PipelineModule([LayerSpec(Block, number) for number in range(LAYERS)], num_stages=ranks,
                            loss_fn=torch.nn.functional.mse_loss, partition_method="uniform",
                            activation_checkpoint_interval=0)
    engine, *_ = deepspeed.initialize(
        model=module, optimizer=torch.optim.Adam(module.parameters(), 1e-3),
        config={"train_batch_size": ROWS * MICROBATCHES, "train_micro_batch_size_per_gpu": ROWS,
                "gradient_accumulation_steps": MICROBATCHES, "steps_per_print": 1000000})
    stage, seen = engine.stage_id, []
    module.register_forward_pre_hook(
        lambda module, args: seen.append(stage) if torch.is_grad_enabled() else None)
    data, others = batches(5), batches(6)
    bits, per_iteration = [], []
    for iteration in range(ITERATIONS):
        before = len(seen)
        bits.append(engine.train_batch(data).item().hex())
        per_iteration.append(seen[before:])
        if iteration == ITERATIONS // 2:
            engine.eval_batch(others)
    with open(os.path.join(OUT, f"rank-{dist.get_rank()}.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": bits, "forwards": per_iteration, "stages": [stage], "microbatches": MICROBATCHES,
                   "listed": listed(stage, ranks)}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
