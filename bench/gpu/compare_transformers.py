#!/usr/bin/env python3
"""Logits, loss and gradients of the trainer against Hugging Face transformers, on random weights.

    compare_transformers.py GRADIENT_DUMP [cpu|cuda]

Prints a table of the largest difference of each, as a part of the largest element of the tensor compared, and how far
ours and transformers' own are from transformers' in fp32. Ends with 0 only if all are within the limits. In bf16 logits
and gradients may be up to 2 % farther than transformers' are, as roots of mean squares, because sums in another order
round differently. The worst element of all gradients is one number, which varies more: it may be 1.5 times as far.
"""

import copy
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import (BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig,
                          GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM)

LIMITS = {"fp32": 1e-4, "bf16": 2e-2}
OTHER_ORDER = 1.02
WORST_ELEMENT = 1.5
BATCH, TIME = 2, 128


def models():
    torch.manual_seed(1)
    llama = dict(vocab_size=512, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8,
                 num_key_value_heads=2, max_position_embeddings=256, attention_dropout=0.0)
    yield "Llama, GQA", LlamaForCausalLM(LlamaConfig(**llama, tie_word_embeddings=False))
    yield "Llama, GQA, tied, Llama 3.1 rope", LlamaForCausalLM(LlamaConfig(
        **llama, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}))
    yield "GPT-2", GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=256, n_embd=256, n_layer=4, n_head=8,
                                              attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0))
    for name, parallel in (("GPT-NeoX", True), ("GPT-NeoX, in turn", False)):
        yield name, GPTNeoXForCausalLM(GPTNeoXConfig(
            vocab_size=512, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
            max_position_embeddings=256, rotary_pct=0.25, use_parallel_residual=parallel))
    yield "BLOOM", BloomForCausalLM(BloomConfig(vocab_size=512, hidden_size=256, n_layer=4, n_head=8))


def with_biases(model):
    """Random ones: those of a new model are 0, and add nothing to any rounding."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model


def reference(model, ids, dtype, device):
    model = copy.deepcopy(model).to(device=device, dtype=dtype)
    model.train()
    model.zero_grad()
    output = model(input_ids=ids[:, :-1].to(device))
    logits = output.logits
    loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]),
                                             ids[:, 1:].reshape(-1).to(device))
    loss.backward()
    result = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    if isinstance(model, GPTNeoXForCausalLM):  # which saves it under its published name
        result["embed_out.weight"] = result.pop("lm_head.weight", result.get("embed_out.weight"))
    return {"logits": logits, "loss": loss.reshape(1), **result}


def difference(ours, theirs):
    theirs = theirs.detach().float().cpu()
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def distance(values, exact):
    exact = exact.detach().float().cpu()
    return ((values - exact).square().mean() / exact.square().mean()).sqrt().item()


def as_cpu(result):
    return {key: value.detach().float().cpu() for key, value in result.items()}


def gradients(result):
    return {key: value for key, value in result.items() if key not in ("logits", "loss")}


def worst_gradient(ours, theirs):
    return max(difference(ours[key], value) for key, value in gradients(theirs).items())


def gradients_distance(values, exact):
    """Root of the mean over all gradients, each of which counts alike, of the squares of their distances."""
    squares = [distance(values[key], value) ** 2 for key, value in gradients(exact).items()]
    return (sum(squares) / len(squares)) ** 0.5


def main():
    program, device = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = False
    print("| model | type | logits | loss | gradients (worst) | limit | against fp32, ours and transformers': logits | "
          "gradients | worst gradient |\n|---|---|---|---|---|---|---|---|---|")
    for name, model in models():
        model = with_biases(model)
        for type_name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            with tempfile.TemporaryDirectory() as folder:
                model = model.to(device="cpu", dtype=torch.float32)
                model.save_pretrained(folder)
                ids = torch.randint(0, 512, (BATCH, TIME + 1))
                with open(f"{folder}/ids", "wb") as file:
                    file.write(ids.numpy().tobytes())
                subprocess.run([program, folder, f"{folder}/ids", str(BATCH), str(TIME), type_name, device,
                                f"{folder}/out.safetensors"], check=True)
                ours = load_file(f"{folder}/out.safetensors")
                theirs = reference(model, ids, dtype, device)
                missing = set(theirs) - set(ours)
                if missing:
                    raise SystemExit(f"no gradient of {sorted(missing)}")
                worst = worst_gradient(ours, theirs)
                exact = theirs if type_name == "fp32" else reference(model, ids, torch.float32, device)
                both = (ours, as_cpu(theirs))
                to_exact = [([distance(result["logits"], exact["logits"]) for result in both], OTHER_ORDER),
                            ([gradients_distance(result, exact) for result in both], OTHER_ORDER),
                            ([worst_gradient(result, exact) for result in both], WORST_ELEMENT)]
                row = [difference(ours["logits"], theirs["logits"]), difference(ours["loss"], theirs["loss"]), worst]
                failed |= max(row[:2]) > LIMITS[type_name]
                failed |= any(far[0] > max(LIMITS["fp32"], factor * far[1]) for far, factor in to_exact)
                print(f"| {name} | {type_name} | " + " | ".join(f"{value:.2e}" for value in row)
                      + f" | {LIMITS[type_name]:.0e} | "
                      + " | ".join(f"{far[0]:.2e}, {far[1]:.2e}" for far, _ in to_exact) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
