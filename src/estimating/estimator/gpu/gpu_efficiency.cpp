#include "estimating/estimator/gpu/gpu_efficiency.h"

#include <algorithm>
#include <cstddef>

namespace lowgear::estimator {
namespace {

/// Shares of memory bandwidth that large tensors reach, by kind. Ampere: operators sampled by the ICICLE project on
/// A100-SXM4-80GB (Perlmutter; github.com/DebarghaG/estimate-train-time), median of the largest shapes. Hopper:
/// kernels measured on an H100 SXM, and for softmax the same project's samples of GH200 (Vista). Both: cross entropy as
/// measured of Megatron's kernels on an H200; that project's samples of it keep 16 bits throughout, where Megatron
/// converts logits to fp32 (cross_entropy.py). The other two losses combine what the same run measured of conversion,
/// copy and scaling; their softmax is taken to reach 0.85. What is in neither is taken to run as what does the same:
/// dropout on Ampere as on Hopper; copies as additions; RMS norm as layer norm; rotary embeddings, which were sampled
/// unfused, as data/h100-sxm has them.
struct MemoryShares {
  PassShares norm;
  PassShares addition;
  PassShares activation;
  PassShares softmax;
  PassShares fused_softmax;
  PassShares mask;
  PassShares cross_entropy;
  PassShares gathered_loss;
  PassShares plain_loss;
  PassShares embedding;
  PassShares optimizer;
  PassShares dropout;
  PassShares gradient_sum;
  PassShares rotary;
};

constexpr MemoryShares kAmpere{.norm = {0.52, 0.24},
                               .addition = {0.86, 0.86},
                               .activation = {0.71, 0.77},
                               .softmax = {0.41, 0.41},
                               .fused_softmax = {0.61, 0.57},
                               .mask = {0.50, 0.13},
                               .cross_entropy = {0.64, 0.70},
                               .gathered_loss = {0.69, 0.90},
                               .plain_loss = {0.62, 0.90},
                               .embedding = {0.15, 0.20},
                               .optimizer = {0.83, 0.83},
                               .dropout = {0.74, 0.90},
                               .gradient_sum = {0.73, 0.73},
                               .rotary = {0.55, 0.55}};

constexpr MemoryShares kHopper{.norm = {0.55, 0.35},
                               .addition = {0.90, 0.90},
                               .activation = {0.89, 0.90},
                               .softmax = {0.30, 0.38},
                               .fused_softmax = {0.56, 0.46},
                               .mask = {0.45, 0.12},
                               .cross_entropy = {0.64, 0.70},
                               .gathered_loss = {0.69, 0.90},
                               .plain_loss = {0.62, 0.90},
                               .embedding = {0.85, 0.25},
                               .optimizer = {0.80, 0.80},
                               .dropout = {0.74, 0.90},
                               .gradient_sum = {0.73, 0.73},
                               .rotary = {0.58, 0.58}};

std::array<PassShares, kOperatorKindCount> by_kind(const MemoryShares& shares) {
  std::array<PassShares, kOperatorKindCount> table;
  table.fill(shares.addition);
  const auto set = [&table](OperatorKind kind, const PassShares& share) {
    table[static_cast<std::size_t>(kind)] = share;
  };
  set(OperatorKind::layer_norm, shares.norm);
  set(OperatorKind::rms_norm, shares.norm);
  set(OperatorKind::gelu, shares.activation);
  set(OperatorKind::swiglu, shares.activation);
  set(OperatorKind::dropout, shares.dropout);
  set(OperatorKind::gradient_sum, shares.gradient_sum);
  set(OperatorKind::rotary, shares.rotary);
  set(OperatorKind::softmax, shares.softmax);
  set(OperatorKind::fused_softmax, shares.fused_softmax);
  set(OperatorKind::attention_mask, shares.mask);
  set(OperatorKind::cross_entropy, shares.cross_entropy);
  set(OperatorKind::gathered_loss, shares.gathered_loss);
  set(OperatorKind::plain_loss, shares.plain_loss);
  set(OperatorKind::embedding, shares.embedding);
  set(OperatorKind::optimizer, shares.optimizer);
  return table;
}

bool is_hopper_or_later(std::string_view gpu) {
  return gpu.starts_with("h") || gpu.starts_with("gh") || gpu.starts_with("b");
}

/// Products. A100, GH200: forward products of the same samples (their backward ran on gradients near zero, which cost
/// less power than those of training). H100, H200: bf16 products of 8192 x 8192 sustained at the power limit, as
/// docs/estimating.md has measured: 680 and 663 TFLOP/s, and
/// of the 60 products of transformers' shapes that the H100's share is the mean of.
double matmul_peak(std::string_view gpu) {
  if (gpu == "h100-sxm") return 0.725;
  if (gpu == "h200-sxm") return 0.70;
  if (gpu == "gh200") return 0.86;
  return gpu.starts_with("a100") ? 0.87 : 0.75;
}

}  // namespace

KernelEfficiency kernel_efficiency(std::string_view gpu) {
  const bool hopper = is_hopper_or_later(gpu);
  KernelEfficiency efficiency;
  efficiency.matmul_peak = matmul_peak(gpu);
  efficiency.batched_product = hopper ? 0.80 : 0.65;
  // What attention takes in addition to its FLOPs is what the smallest of data/h100-sxm/operator take. The rest:
  // FlashAttention 2 on A100 (the same samples); cuDNN's on an H100: causal, head width
  // 128, sequences of 4k and 8k.
  efficiency.attention = hopper ? PassShares{0.48, 0.43} : PassShares{0.55, 0.46};
  // Dropout in fused attention, measured on an H200 in causal attention of 67 to 537 million
  // pairs: cuDNN's kernels for Hopper, and FlashAttention 2 for Ampere, which is assumed to take as many cycles there.
  efficiency.dropout_cycles_forward = hopper ? 0.219 : 0.085;
  efficiency.dropout_cycles_backward = hopper ? 0.133 : 0.135;
  efficiency.dropout_start_forward_s = hopper ? 53e-6 : 14e-6;
  efficiency.dropout_start_backward_s = hopper ? 26e-6 : 35e-6;
  efficiency.memory = by_kind(hopper ? kHopper : kAmpere);
  return efficiency;
}

}  // namespace lowgear::estimator
