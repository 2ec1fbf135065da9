"""Writes tiny models of each family with what Hugging Face transformers computes from them, in fp32 on the CPU.

make_fixtures.py FOLDER [CASE...]

FOLDER/CASE/config.json            as transformers writes it
FOLDER/CASE/model.safetensors      random weights with the family's published names; the values are exact in bf16
FOLDER/CASE/gradients.safetensors  of the loss, fp32, with the same names
FOLDER/CASE/expected.safetensors   token ids, targets, logits, loss; ids and losses of 30 steps of AdamW

Made with transformers 5.17.0 and torch 2.11.
"""

import copy
import json
import pathlib
import shutil
import sys
import traceback

import torch
import transformers
from safetensors.torch import save_file

BATCH = 2
TIME = 12
VOCABULARY = 64
STEPS = 30
LEARNING_RATE = 1e-3
IGNORED = -100

COMMON = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LLAMA = dict(
    COMMON,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    attention_dropout=0.0,
)
EXPERTS = dict(LLAMA, intermediate_size=20, num_hidden_layers=3)


def rope(kind="default", **members):
    return dict(rope_type=kind, rope_theta=members.pop("rope_theta", 10000.0), **members)


# name of the case: class of the configuration, of the model, members
CASES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, head_dim=8, tie_word_embeddings=False, rms_norm_eps=1e-5,
        rope_parameters=rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64))),
    "llama_linear": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
        rope_parameters=rope("linear", factor=3.0))),
    "llama_yarn": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, num_hidden_layers=2, head_dim=8, tie_word_embeddings=False, max_position_embeddings=64,
        rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16))),
    "llama_dynamic": ("LlamaConfig", "LlamaForCausalLM", dict(
        LLAMA, num_hidden_layers=2, head_dim=8, tie_word_embeddings=False, max_position_embeddings=8,
        rope_parameters=rope("dynamic", factor=2.0))),
    "mistral": ("MistralConfig", "MistralForCausalLM", dict(
        LLAMA, head_dim=4, sliding_window=5, tie_word_embeddings=False, rope_parameters=rope(rope_theta=5000.0))),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", dict(
        LLAMA, tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        rope_parameters=rope(rope_theta=1000000.0))),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", dict(
        LLAMA, head_dim=8, tie_word_embeddings=False, rope_parameters=rope(rope_theta=1000000.0))),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", dict(
        LLAMA, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False, sliding_window=None,
        resid_pdrop=0.0, embd_pdrop=0.0, rope_parameters=rope(partial_rotary_factor=0.5))),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", dict(
        EXPERTS, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, tie_word_embeddings=False,
        output_router_logits=True, router_aux_loss_coef=0.1, router_jitter_noise=0.0, rope_parameters=rope())),
    "qwen2_moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM", dict(
        EXPERTS, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20,
        decoder_sparse_step=2, mlp_only_layers=[], norm_topk_prob=False, tie_word_embeddings=False,
        output_router_logits=True, router_aux_loss_coef=0.2, rope_parameters=rope())),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", dict(
        EXPERTS, head_dim=8, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=12, decoder_sparse_step=1,
        mlp_only_layers=[1], norm_topk_prob=True, tie_word_embeddings=True, output_router_logits=False,
        rope_parameters=rope())),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(
        COMMON, n_positions=32, n_embd=16, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", dict(
        COMMON, hidden_size=16, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2,
        max_position_embeddings=32, hidden_act="gelu", use_parallel_residual=True, tie_word_embeddings=False,
        attention_dropout=0.0, hidden_dropout=0.0, rotary_pct=0.25)),
    "gpt_neox_serial": ("GPTNeoXConfig", "GPTNeoXForCausalLM", dict(
        COMMON, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32, hidden_act="gelu_new", use_parallel_residual=False, tie_word_embeddings=False,
        attention_dropout=0.0, hidden_dropout=0.0, rotary_pct=0.25)),
    "bloom": ("BloomConfig", "BloomForCausalLM", dict(
        COMMON, hidden_size=24, n_layer=2, n_head=6, hidden_dropout=0.0, attention_dropout=0.0)),
    "opt": ("OPTConfig", "OPTForCausalLM", dict(
        COMMON, hidden_size=16, ffn_dim=40, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=32,
        do_layer_norm_before=True, word_embed_proj_dim=16, dropout=0.0, attention_dropout=0.0, layerdrop=0.0,
        activation_function="relu")),
    "opt_after": ("OPTConfig", "OPTForCausalLM", dict(
        COMMON, hidden_size=16, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32,
        do_layer_norm_before=False, word_embed_proj_dim=12, dropout=0.0, attention_dropout=0.0, layerdrop=0.0,
        activation_function="relu")),
    "bert": ("BertConfig", "BertForMaskedLM", dict(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=32, type_vocab_size=2, hidden_act="gelu", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0)),
    "t5": ("T5Config", "T5ForConditionalGeneration", dict(
        vocab_size=VOCABULARY, d_model=16, d_kv=4, d_ff=40, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=10, dropout_rate=0.0,
        feed_forward_proj="relu", tie_word_embeddings=True, decoder_start_token_id=0)),
    "t5_gated": ("T5Config", "T5ForConditionalGeneration", dict(
        vocab_size=VOCABULARY, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=10, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)),
}


def seeded(text):
    """A generator whose numbers follow from the text alone."""
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) % 2**64
    return torch.Generator().manual_seed(value % 2**63)


def randomise(model, case):
    """Values of every parameter, none of them special, so that no term of a gradient vanishes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=seeded(f"{case}/{name}"))
            if name.endswith("bias"):
                values = values * 0.1
            elif parameter.ndim == 1:
                values = 1 + 0.1 * values
            else:
                values = values * 0.25
            parameter.copy_(values.to(torch.bfloat16).to(torch.float32))


def batches(case):
    """Inputs, targets and ids of the other stream (for T5) of each step; the first is the one of the gradients."""
    generator = seeded(f"{case}/ids")
    ids = torch.randint(3, VOCABULARY, (STEPS, BATCH, TIME + 1), generator=generator)
    if case == "bert":
        chosen = torch.rand((STEPS, BATCH, TIME + 1), generator=generator) < 0.3
        chosen[:, :, 4] = True
        inputs = torch.where(chosen, torch.tensor(3), ids)[:, :, :TIME]
        return inputs, torch.where(chosen, ids, torch.tensor(IGNORED))[:, :, :TIME], None
    if case.startswith("t5"):
        encoded = torch.randint(3, VOCABULARY, (STEPS, BATCH, TIME - 3), generator=generator)
        ids[:, :, 0] = 0
        return ids[:, :, :-1], ids[:, :, 1:], encoded
    return ids[:, :, :-1], ids[:, :, 1:], None


def outputs_of(model, inputs, encoded):
    if encoded is None:
        return model(input_ids=inputs, use_cache=False) if accepts_cache(model) else model(input_ids=inputs)
    return model(input_ids=encoded, decoder_input_ids=inputs, use_cache=False)


def accepts_cache(model):
    return "Bert" not in type(model).__name__


def loss_of(model, outputs, targets):
    """As the model computes it from labels, which transformers would shift: with the load-balancing loss of experts."""
    logits = outputs.logits.float().flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)
    balance = getattr(outputs, "aux_loss", None)
    return loss if balance is None else loss + model.config.router_aux_loss_coef * balance


def save_named(model, folder, target):
    """The tensors of the model under the names that its family publishes."""
    staged = folder / "staged"
    model.save_pretrained(staged)
    shutil.move(staged / "model.safetensors", target)
    config = json.loads((staged / "config.json").read_text())
    shutil.rmtree(staged)
    return config


def step_losses(model, inputs, targets, encoded):
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        outputs = outputs_of(model, inputs[step], None if encoded is None else encoded[step])
        loss = loss_of(model, outputs, targets[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(case, folder):
    config_class, model_class, members = CASES[case]
    config = getattr(transformers, config_class)(**members)
    config._attn_implementation = "eager"
    try:
        config._experts_implementation = "eager"
    except Exception:  # of families without experts
        pass
    model = getattr(transformers, model_class)(config).float().eval()
    randomise(model, case)
    folder.mkdir(parents=True, exist_ok=True)
    written = save_named(copy.deepcopy(model).to(torch.bfloat16), folder, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")

    inputs, targets, encoded = batches(case)
    first = None if encoded is None else encoded[0]
    outputs = outputs_of(model, inputs[0], first)
    logits = outputs.logits
    loss = loss_of(model, outputs, targets[0])
    loss.backward()
    with torch.no_grad():
        narrow = copy.deepcopy(model).to(torch.bfloat16)
        narrow_outputs = outputs_of(narrow, inputs[0], first)
        narrow_loss = loss_of(narrow, narrow_outputs, targets[0])
    gradients = copy.deepcopy(model)
    missing = []
    with torch.no_grad():
        for (name, of), (_, to) in zip(model.named_parameters(), gradients.named_parameters()):
            if of.grad is None:
                missing.append(name)
            to.copy_(torch.zeros_like(of) if of.grad is None else of.grad)
    save_named(gradients, folder, folder / "gradients.safetensors")
    losses = step_losses(model, inputs, targets, encoded)
    expected = {
        "inputs": inputs.to(torch.int32),
        "targets": targets.to(torch.int32),
        "logits": logits.detach().float(),
        "loss": loss.detach().float().reshape(1),
        "step_losses": torch.tensor(losses),
        "bf16_logits_error": (narrow_outputs.logits.float() - logits).abs().max().reshape(1),
        "bf16_loss": narrow_loss.reshape(1),
    }
    if encoded is not None:
        expected["encoder_inputs"] = encoded.to(torch.int32)
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, folder / "expected.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir())
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{case}: {parameters} parameters, loss {loss.item():.6f}, after {STEPS} steps {losses[-1]:.6f}, "
          f"{size} bytes{', no gradient: ' + ', '.join(missing) if missing else ''}", flush=True)


def main():
    torch.set_num_threads(1)
    target = pathlib.Path(sys.argv[1])
    print(f"transformers {transformers.__version__}, torch {torch.__version__}", flush=True)
    failed = []
    for case in sys.argv[2:] or CASES:
        try:
            make(case, target / case)
        except Exception:
            traceback.print_exc()
            print(f"{case}: failed", flush=True)
            failed.append(case)
            shutil.rmtree(target / case, ignore_errors=True)
    print(f"total {sum(f.stat().st_size for f in target.rglob('*') if f.is_file())} bytes"
          f"{', failed: ' + ', '.join(failed) if failed else ''}", flush=True)


if __name__ == "__main__":
    main()
