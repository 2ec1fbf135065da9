#!/usr/bin/env python3
"""Trains a model of transformers or torchvision as a pipeline, split by torch.distributed.pipelining.pipeline().

    torchrun --nproc-per-node 2 examples/attach/model_pipeline.py llama --layers 16 --width 1024
    torchrun --nproc-per-node 4 examples/attach/model_pipeline.py path/to/config.json --schedule GPipe

MODEL is a name below, or a config.json of transformers (or its folder) whose AutoModelForCausalLM is trained. Weights
are random, tokens and images too: the job shows how a model becomes a pipeline, not how it learns. Stages take the
model's blocks in shares as equal as whole blocks allow. Nothing here knows of Lowgear; put `lowgear run ... --` before
torchrun to have the job measured or planned. Needs PyTorch 2.6 or newer. Each process uses a GPU where there is one for
each, else all use CPUs.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

VOCABULARY, LABELS = 1024, 100


class Model(torch.nn.Module):
    """A model whose only output is its logits, as a loss wants them."""

    def __init__(self, body, logits, arguments=None):
        super().__init__()
        self.body = body
        self._logits = logits
        self._arguments = arguments or {}

    def forward(self, inputs):
        return self._logits(self.body(inputs, **self._arguments))


class RotaryTables(torch.nn.Module):
    """A model's rotary embedding for rows of one length, as tables that every stage has: computed, they would be sent
    from stage to stage, and torch.export cannot split what computes them without gradients."""

    def __init__(self, computed, length, device):
        super().__init__()
        cosine, sine = computed(torch.zeros(1, device=device), torch.arange(length, device=device)[None])
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, *_, **__):
        return self.cosine, self.sine


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, **_):
    """Without a mask, causal where the model is: masks are boolean, and stages exchange floating-point values only."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    causal = attention_mask is None and (module.is_causal if is_causal is None else is_causal)
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask,
                                                              dropout_p=dropout, scale=scaling, is_causal=causal)
    return output.transpose(1, 2).contiguous(), None


def choose_attention(config, mask):
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register("of_pipeline", attention)
    AttentionMaskInterface.register("of_pipeline", lambda *_, **__: mask)
    config._attn_implementation = "of_pipeline"


def replace_rotary(body, length, device):
    for name, module in list(body.named_modules()):
        if type(module).__name__.endswith("RotaryEmbedding"):
            body.set_submodule(name, RotaryTables(module, length, device))


def bloom(config, rows, length, device):
    """BLOOM has an attention of its own, which adds the mask and the biases that it finds: both are tables here."""
    from transformers import BloomForCausalLM

    choose_attention(config, torch.full((1, 1, length, length), torch.finfo(torch.float32).min, device=device).triu(1))
    body = BloomForCausalLM(config)
    biases = body.transformer.build_alibi_tensor(torch.ones(rows, length, device=device), config.n_head, torch.float32)
    body.transformer.build_alibi_tensor = lambda *_, **__: biases
    return body


def language_model(kind, config, rows, length, device):
    """A model of transformers with random weights. Tied embeddings are untied: the first and the last stage lie on
    different GPUs."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, T5EncoderModel

    config.tie_word_embeddings = False
    if config.model_type == "bloom":
        return Model(bloom(config, rows, length, device), lambda output: output.logits, {"use_cache": False})
    choose_attention(config, None)
    if kind == "t5-encoder":
        body = T5EncoderModel(config)
        body.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
        return Model(body, lambda output: body.lm_head(output.last_hidden_state))
    if kind == "bert":
        return Model(AutoModelForMaskedLM.from_config(config), lambda output: output.logits)
    body = AutoModelForCausalLM.from_config(config)
    replace_rotary(body, length, device)
    return Model(body, lambda output: output.logits, {"use_cache": False})


def named_config(kind, layers, width, length):
    from transformers import AutoConfig

    heads = max(1, width // 64)
    sizes = {
        "gpt2": ("gpt2", {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": length,
                          "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
        "llama": ("llama", {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 3 * width,
                            "num_attention_heads": heads, "num_key_value_heads": heads,
                            "max_position_embeddings": length}),
        "bloom": ("bloom", {"n_layer": layers, "hidden_size": width, "n_head": heads}),
        "gpt-neox": ("gpt_neox", {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width,
                                  "num_attention_heads": heads, "max_position_embeddings": length}),
        "bert": ("bert", {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width,
                          "num_attention_heads": heads, "max_position_embeddings": length, "hidden_dropout_prob": 0.0,
                          "attention_probs_dropout_prob": 0.0}),
        "t5-encoder": ("t5", {"num_layers": layers, "d_model": width, "d_ff": 4 * width, "num_heads": heads,
                              "dropout_rate": 0.0}),
    }
    name, values = sizes[kind]
    return AutoConfig.for_model(name, vocab_size=VOCABULARY, **values)


MODELS = ("gpt2", "llama", "bloom", "gpt-neox", "bert", "t5-encoder", "wide-resnet")


def build(options, device):
    """The model, one microbatch of inputs, and the number of classes. All on the device: export keeps constants where
    they were when it saw them."""
    if options.model == "wide-resnet":
        from torchvision.models import wide_resnet50_2

        return (Model(wide_resnet50_2(num_classes=LABELS).to(device), lambda output: output),
                torch.zeros(options.rows, 3, 64, 64, device=device), LABELS)
    if options.model in MODELS:
        config = named_config(options.model, options.layers, options.width, options.length)
    else:
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(options.model)
    with device:
        model = language_model(options.model, config, options.rows, options.length, device)
    return model, torch.zeros(options.rows, options.length, dtype=torch.long, device=device), config.vocab_size


def blocks_of(module, prefix=""):
    """Names of the outermost repeated blocks, in order: the children of lists and sequences."""
    names = []
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) and len(child) > 1:
            names += [f"{path}.{inner}" for inner, _ in child.named_children()]
        else:
            names += blocks_of(child, f"{path}.")
    return names


def split_spec(model, stages):
    names = blocks_of(model)
    if len(names) < stages:
        raise SystemExit(f"the model has {len(names)} blocks, too few for {stages} stages")
    return {names[len(names) * stage // stages]: SplitPoint.BEGINNING for stage in range(1, stages)}


def batch_of(options, example, classes, generator, device):
    rows = options.microbatches * options.rows
    if example.is_floating_point():
        inputs = torch.randn(rows, *example.shape[1:], generator=generator)
        target = torch.randint(classes, (rows,), generator=generator)
    else:
        inputs = torch.randint(classes, (rows, *example.shape[1:]), generator=generator)
        target = inputs.roll(-1, 1)
    return inputs.to(device), target.to(device)


def loss_of(logits, target):
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2).float(), target.flatten())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help=f"{', '.join(MODELS)}, or a config.json")
    parser.add_argument("--schedule", default="1F1B", help="1F1B (the default) or GPipe: one stage a process")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2, help="of a microbatch")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=128, help="of a row, in tokens")
    parser.add_argument("--deterministic", action="store_true", help="the same numbers in every run; slower")
    parser.add_argument("--out", type=Path, help="an existing folder: each process writes its losses there, bit for bit")
    return parser.parse_args()


def train(options, schedule, stage, example, classes, device):
    """Returns the mean loss of each iteration on the last stage, an empty list on the others."""
    optimizer = torch.optim.AdamW(stage.submod.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(7)
    means = []
    for iteration in range(options.iterations):
        inputs, target = batch_of(options, example, classes, generator, device)
        start, losses = time.monotonic(), []
        schedule.step(*((inputs,) if stage.is_first else ()),
                      **({"target": target, "losses": losses} if stage.is_last else {}))
        optimizer.step()
        optimizer.zero_grad()
        if stage.is_last:
            means.append(torch.stack(losses).double().mean().item())
            print(f"iteration {iteration}: loss {means[-1]:.4f}, {time.monotonic() - start:.3f} s", flush=True)
    return means


def main():
    options = arguments()
    kind = get_schedule_class(options.schedule)
    if not issubclass(kind, PipelineScheduleSingle):
        raise SystemExit(f"{options.schedule} has several stages a process; this example has one: 1F1B or GPipe")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    if options.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)  # every process builds the same model, and keeps its part
    model, example, classes = build(options, device)
    split = pipeline(model, mb_args=(example,), split_spec=split_spec(model, world))
    stage = split.build_stage(rank, device)
    losses = train(options, kind(stage, options.microbatches, loss_fn=loss_of), stage, example, classes, device)
    if options.out:
        (options.out / f"rank-{rank}.json").write_text(json.dumps({"losses": [loss.hex() for loss in losses]}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
