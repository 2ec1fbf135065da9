"""A small GPT of Megatron Core, without Transformer Engine and Apex, that knows nothing of Lowgear: torchrun ...
megatron_gpt.py CHUNKS ITERATIONS OUT, with CHUNKS model chunks on each rank (1: no interleaving). Needs a GPU for each rank.

Every rank writes to OUT which chunks its modules have computed, from hooks of PyTorch, what Megatron's own tables list,
and the losses of the last stage as bits. Evaluates once in between."""

import json
import os
import sys
from functools import partial

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.pipeline_parallel import get_forward_backward_func, schedules
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

CHUNKS, ITERATIONS, OUT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
LAYERS, HIDDEN, HEADS, VOCABULARY, TOKENS, ROWS, MICROBATCHES = 4, 64, 4, 128, 32, 2, 8


def initialize():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.use_deterministic_algorithms(True, warn_only=True)
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=dist.get_world_size(),
        virtual_pipeline_model_parallel_size=CHUNKS if CHUNKS > 1 else None, create_gloo_process_groups=False)
    torch.manual_seed(3)
    model_parallel_cuda_manual_seed(3)


def build(ranks):
    """The model chunks of this rank."""
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, hidden_dropout=0.0, attention_dropout=0.0,
        pipeline_model_parallel_size=ranks, virtual_pipeline_model_parallel_size=CHUNKS if CHUNKS > 1 else None,
        pipeline_dtype=torch.float32, params_dtype=torch.float32)
    chunks = []
    for chunk in range(CHUNKS):
        number = chunk if CHUNKS > 1 else None
        first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=number)
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=number)
        chunks.append(GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, TOKENS, pre_process=first,
                               post_process=last, vp_stage=number).cuda())
    return chunks


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        tokens = torch.randint(0, VOCABULARY, (ROWS, TOKENS + 1), generator=generator).cuda()
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def forward_step(data, model):
    tokens, labels = next(data)
    positions = torch.arange(TOKENS, device="cuda").expand(ROWS, TOKENS)
    masked = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool, device="cuda").triu(1)
    return model(tokens, positions, masked, labels=labels), partial(loss_of, labels.numel())


def loss_of(count, output):
    loss = output.float().sum() / count
    return loss, {"loss": loss.detach().clone()}


def listed(rank, ranks):
    """This rank's units by Megatron's tables, where it interleaves."""
    if CHUNKS == 1:
        return None
    _, _, ahead, _ = schedules.get_pp_rank_microbatches(MICROBATCHES, CHUNKS, ranks)
    slots = schedules.get_schedule_table(MICROBATCHES, CHUNKS, ranks)
    forwards = [("forward", chunk * ranks + rank, microbatch) for microbatch, chunk in slots]
    backwards = [("backward", (CHUNKS - 1 - chunk) * ranks + rank, microbatch) for microbatch, chunk in slots]
    units = forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards):
        units += [forward, backward]
    return units + backwards[len(forwards) - ahead:]


def main():
    initialize()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = build(ranks)
    seen = []
    for number, chunk in enumerate(chunks):
        chunk.register_forward_pre_hook(
            lambda module, args, stage=number * ranks + rank: seen.append(stage) if torch.is_grad_enabled() else None)
    parameters = [parameter for chunk in chunks for parameter in chunk.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-3)
    # Each chunk reads the data by itself, the same in all of them.
    data, others = [batches(5) for _ in chunks], [batches(6) for _ in chunks]
    run = partial(get_forward_backward_func(), forward_step_func=forward_step, model=chunks,
                  num_microbatches=MICROBATCHES, seq_length=TOKENS, micro_batch_size=ROWS)
    bits, per_iteration = [], []
    for iteration in range(ITERATIONS):
        before = len(seen)
        optimizer.zero_grad()
        losses = run(data_iterator=data, forward_only=False)
        optimizer.step()
        per_iteration.append(seen[before:])
        bits.append([entry["loss"].item().hex() for entry in losses])
        if iteration == ITERATIONS // 2:
            run(data_iterator=others, forward_only=True)
    with open(os.path.join(OUT, f"rank-{rank}.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": bits if any(bits) else [], "forwards": per_iteration, "microbatches": MICROBATCHES,
                   "stages": [number * ranks + rank for number in range(CHUNKS)], "listed": listed(rank, ranks)}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
