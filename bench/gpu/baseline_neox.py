#!/usr/bin/env python3
"""The job of pythia.yaml with Hugging Face transformers on one GPU: what the trainer is compared with.

    baseline_neox.py [--steps N] [--type bf16|fp16] [--compile none|default|reduce-overhead]

GPTNeoXForCausalLM of pythia-410m.json with random weights, attention by scaled_dot_product_attention, fused AdamW, 16
microbatches of 4 x 512 tokens a step. `bf16`: weights and moments in bf16, the fastest; `fp16`: as Hugging Face's
Trainer does with fp16, autocast with weights in fp32 and a scaled loss. Energy is that of the GPU's own counter, which
is only read. Prints one JSON object; the first steps do not count, in which torch.compile works.
"""

import argparse
import contextlib
import json
import pathlib
import time

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from baseline_pipelining import Energy

CONFIG = pathlib.Path(__file__).with_name("pythia-410m.json")
MICROBATCHES, MICROBATCH, TIME, WARM_UP = 16, 4, 512, 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="that count")
    parser.add_argument("--type", choices=["bf16", "fp16"], default="bf16")
    parser.add_argument("--compile", choices=["none", "default", "reduce-overhead"], default="default")
    return parser.parse_args()


def made_model(asked):
    config = GPTNeoXConfig.from_json_file(CONFIG)
    config._attn_implementation = "sdpa"
    config.use_cache = False
    model = GPTNeoXForCausalLM(config).to("cuda", torch.bfloat16 if asked.type == "bf16" else torch.float32)
    return model.train()


def main():
    asked = arguments()
    torch.manual_seed(1)
    model = made_model(asked)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, betas=(0.9, 0.999), weight_decay=0.0, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=asked.type == "fp16")
    autocast = torch.autocast("cuda", torch.float16) if asked.type == "fp16" else contextlib.nullcontext()

    def loss_of(ids, targets):
        logits = model(input_ids=ids).logits
        return torch.nn.functional.cross_entropy(logits.float().view(-1, logits.size(-1)), targets.reshape(-1))

    if asked.compile == "reduce-overhead":  # whose graphs write over what they have returned: gradients stay where they are
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
    if asked.compile != "none":
        loss_of = torch.compile(loss_of, mode=None if asked.compile == "default" else asked.compile)
    tokens = torch.randint(0, 256, (MICROBATCHES, MICROBATCH, TIME + 1), device="cuda")
    energy = Energy(torch.cuda.current_device())
    start_s = start_j = 0.0
    for step in range(WARM_UP + asked.steps):
        if step == WARM_UP:
            torch.cuda.synchronize()
            start_s, start_j = time.perf_counter(), energy.read_j()
        for microbatch in tokens:
            if asked.compile == "reduce-overhead":
                torch.compiler.cudagraph_mark_step_begin()
            with autocast:
                loss = loss_of(microbatch[:, :-1], microbatch[:, 1:])
            scaler.scale(loss / MICROBATCHES).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=asked.compile != "reduce-overhead")
    torch.cuda.synchronize()
    step_s = (time.perf_counter() - start_s) / asked.steps
    joules = (energy.read_j() - start_j) / asked.steps
    token_count = MICROBATCHES * MICROBATCH * TIME
    print(json.dumps({"system": f"transformers, torch {torch.__version__}", "type": asked.type, "compile": asked.compile,
                      "step_s": step_s, "tokens_per_s": token_count / step_s, "step_energy_j": joules,
                      "j_per_token": joules / token_count}), flush=True)


if __name__ == "__main__":
    main()
