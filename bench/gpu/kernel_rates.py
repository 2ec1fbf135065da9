#!/usr/bin/env python3
"""Rates of kernels at the sizes of transformers: where the estimator's shares for Hopper come from.

    kernel_rates.py

bf16 with normal random data, each kernel repeated long enough for the power limit to act on matrix products. Bytes are
those that the estimator counts (operators.cpp). Needs a GPU; changes no setting.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from timing import random, seconds

PRODUCTS = [  # tokens, inputs, outputs
    (4096, 2048, 6144), (4096, 2048, 8192), (4096, 8192, 2048), (4096, 4096, 6144), (4096, 4096, 8192),
    (4096, 8192, 4096), (4096, 6144, 4608), (4096, 6144, 6144), (4096, 7168, 2688), (4096, 896, 7168),
    (4096, 7168, 3584), (4096, 3584, 7168), (4096, 12288, 4608), (4096, 12288, 6144), (4096, 6144, 12288),
    (4096, 16384, 8192), (4096, 8192, 16384), (4096, 18432, 9216), (8192, 8192, 8192), (4096, 2048, 131072)]
ATTENTION = [(8, 4096), (16, 4096), (18, 4096), (16, 8192)]  # heads of 128, tokens
FLOPS_A_MEASUREMENT = 2e14
TOKENS, WIDTH, VOCABULARY = 16384, 8192, 50304


def products():
    print("| tokens x inputs x outputs | forward, TFLOP/s | input gradient | weight gradient |\n|---|---|---|---|")
    for tokens, inputs, outputs in PRODUCTS:
        x, weight, gradient = random(tokens, inputs), random(outputs, inputs), random(tokens, outputs)
        flops = 2 * tokens * inputs * outputs
        repeats = max(10, int(FLOPS_A_MEASUREMENT / flops))
        runs = (lambda: F.linear(x, weight), lambda: gradient @ weight, lambda: gradient.t() @ x)
        rates = " | ".join(f"{flops / seconds(run, repeats) / 1e12:.0f}" for run in runs)
        print(f"| {tokens} x {inputs} x {outputs} | {rates} |", flush=True)


def attention():
    print("\n| causal attention (cuDNN), heads x tokens | forward, TFLOP/s | backward |\n|---|---|---|")
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for heads, tokens in ATTENTION:
            inputs = [random(1, heads, tokens, 128, grad=True) for _ in range(3)]
            output = F.scaled_dot_product_attention(*inputs, is_causal=True)
            gradient = torch.randn_like(output)
            flops = 2 * tokens * tokens * 128 * heads
            forward_s = seconds(lambda: F.scaled_dot_product_attention(*inputs, is_causal=True), 100)
            backward_s = seconds(lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True), 100)
            print(f"| {heads} x {tokens} | {flops / forward_s / 1e12:.0f} | {2.5 * flops / backward_s / 1e12:.0f} |")


def memory():
    x, gradient = random(TOKENS, WIDTH, grad=True), random(TOKENS, WIDTH)
    plain, elements = x.detach(), TOKENS * WIDTH
    norm = torch.nn.LayerNorm(WIDTH).cuda().bfloat16()
    normed = norm(x)
    kept, mask = torch.native_dropout(plain, 0.1, True)
    sums = torch.zeros(elements, device="cuda")
    tokens = torch.randint(0, VOCABULARY, (TOKENS,), device="cuda")
    table = random(VOCABULARY, WIDTH, grad=True)
    looked_up = F.embedding(tokens, table)
    weights = torch.nn.Parameter(torch.randn(10**8, device="cuda"))
    weights.grad = torch.randn_like(weights)
    optimizer = torch.optim.AdamW([weights], fused=True)
    aten = torch.ops.aten
    backward = lambda output, inputs: torch.autograd.grad(output, inputs, gradient, retain_graph=True)
    rows = [
        ("layer norm", 4 * elements, lambda: norm(x)),
        ("layer norm, backward", 6 * elements, lambda: backward(normed, (x, norm.weight, norm.bias))),
        ("addition", 6 * elements, lambda: plain + gradient),
        ("GELU", 4 * elements, lambda: F.gelu(plain, approximate="tanh")),
        ("GELU, backward", 6 * elements, lambda: aten.gelu_backward(gradient, plain, approximate="tanh")),
        ("dropout", 5 * elements, lambda: torch.native_dropout(plain, 0.1, True)),
        ("dropout, backward", 5 * elements, lambda: aten.native_dropout_backward(gradient, mask, 1.1)),
        ("sum over tokens", 2 * elements, lambda: gradient.sum(0)),
        ("gradient to fp32 sum", 10 * elements, lambda: sums.add_(gradient.view(-1))),
        ("embedding", 4 * elements, lambda: F.embedding(tokens, table)),
        ("embedding, backward", 6 * elements + 2 * VOCABULARY * WIDTH, lambda: backward(looked_up, table)),
        ("AdamW, fused, fp32", 28 * weights.numel(), optimizer.step),
    ]
    print("\n| kernel | TB/s |\n|---|---|")
    for name, size, run in rows:
        print(f"| {name} | {size / seconds(run) / 1e12:.2f} |")


def main():
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}\n")
    products()
    attention()
    memory()


if __name__ == "__main__":
    main()
