#include "estimating/estimator/gpu/gpu_tables.h"

#include <array>
#include <cstddef>

namespace lowgear::estimator {

namespace {

/// Shares of memory bandwidth that large tensors reach, by kind. Ampere: operators sampled by the ICICLE project on
/// A100-SXM4-80GB (Perlmutter; github.com/DebarghaG/estimate-train-time), median of the largest shapes. Hopper:
/// kernels measured on an H100 SXM, and for softmax the same project's samples of GH200 (Vista). Both: cross entropy as
/// measured of Megatron's kernels on an H200; that project's samples of it keep 16 bits throughout, where Megatron
/// converts logits to fp32 (cross_entropy.py). The other two losses combine what the same run measured of conversion,
/// copy and scaling; their softmax is taken to reach 0.85. The fused loss: what PyTorch compiles of its own, 0.86 ms
/// for 8192 x 32,000 logits on an H200; the online loss, Lowgear's kernels: 137 and 262 us for the same
/// (bench/RESULTS.md). The plain loss on Hopper, and sums over tokens: PyTorch's on an H200, 16,384 x
/// 50,304 logits and 512 MB; on Ampere sums reach as much more as its memory is slower for its multiprocessors. What is
/// in neither is taken to run as what does the same: dropout on Ampere as on Hopper; copies as additions; RMS norm as
/// layer norm; rotary embeddings, which were sampled unfused, as data/h100-sxm has them.
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
  PassShares fused_loss;
  PassShares online_loss;
  PassShares embedding;
  PassShares optimizer;
  PassShares dropout;
  PassShares gradient_sum;
  PassShares rotary;
  PassShares column_sum;
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
                               .fused_loss = {0.50, 0.50},
                               .online_loss = {0.80, 0.83},
                               .embedding = {0.15, 0.20},
                               .optimizer = {0.83, 0.83},
                               .dropout = {0.74, 0.90},
                               .gradient_sum = {0.73, 0.73},
                               .rotary = {0.55, 0.55},
                               .column_sum = {0.69, 0.69}};

constexpr MemoryShares kHopper{.norm = {0.55, 0.35},
                               .addition = {0.90, 0.90},
                               .activation = {0.89, 0.90},
                               .softmax = {0.30, 0.38},
                               .fused_softmax = {0.56, 0.46},
                               .mask = {0.45, 0.12},
                               .cross_entropy = {0.64, 0.70},
                               .gathered_loss = {0.69, 0.90},
                               .plain_loss = {0.44, 0.69},
                               .fused_loss = {0.50, 0.50},
                               .online_loss = {0.80, 0.83},
                               .embedding = {0.85, 0.25},
                               .optimizer = {0.80, 0.80},
                               .dropout = {0.74, 0.90},
                               .gradient_sum = {0.73, 0.73},
                               .rotary = {0.58, 0.58},
                               .column_sum = {0.50, 0.50}};

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
  set(OperatorKind::bias_gradient, shares.column_sum);
  set(OperatorKind::softmax, shares.softmax);
  set(OperatorKind::fused_softmax, shares.fused_softmax);
  set(OperatorKind::attention_mask, shares.mask);
  set(OperatorKind::cross_entropy, shares.cross_entropy);
  set(OperatorKind::gathered_loss, shares.gathered_loss);
  set(OperatorKind::plain_loss, shares.plain_loss);
  set(OperatorKind::fused_loss, shares.fused_loss);
  set(OperatorKind::online_loss, shares.online_loss);
  set(OperatorKind::embedding, shares.embedding);
  set(OperatorKind::optimizer, shares.optimizer);
  return table;
}

/// Products. A100, GH200: forward products of the same samples (their backward ran on gradients near zero, which cost
/// less power than those of training). H100, H200: bf16 products of 8192 x 8192 sustained at the power limit, as
/// docs/hardware.md has measured: 680 and 663 TFLOP/s. The H100's share is the mean of 60 products of transformers'
/// shapes; the H200's that of products in training, 700 TFLOP/s of 2048 wide layers and 710 to 760 of 4096 wide ones.
double matmul_peak(std::string_view gpu, Generation generation) {
  if (gpu == "h100-sxm") return 0.725;
  if (gpu == "h200-sxm") return 0.77;
  if (gpu == "gh200") return 0.86;
  return generation == Generation::ampere ? 0.87 : 0.75;
}

/// Causal fused attention.
/// newest on Hopper   478 samples of cuDNN on an H100 (data/h100-sxm), fitted to within 5 %, and slower by a tenth as
/// in
///                    training, at the power limit: 24 passes of heads of 128 took 8.19 ms on an H200, 7.3 apart.
/// flash2 on Hopper   PyTorch's on an H200, 512 to 65,536 tokens; samples of GH200 by the ICICLE project agree.
/// flash2 on Ampere   that project's samples of A100, which have no mask: the share of long sequences; the diagonal is
///                    twice what they show, for half of the FLOPs, and half a tile.
/// flash1 on Ampere   the middle of what its author measured on A100, 30 to 50 % forward and 25 to 35 % backward (Dao
///                    2023, arXiv 2307.08691, section 1), for all lengths and heads; its ratio to flash2 is assumed
///                    to hold on Hopper.
/// V100               FlashAttention 2 needs Ampere: flash1 in its place.
std::array<AttentionRate, kAttentionKernelCount> attention_rates(Generation generation) {
  std::array<AttentionRate, kAttentionKernelCount> rates;
  const auto rate = [&rates](AttentionKernel kernel) -> AttentionRate& {
    return rates[static_cast<std::size_t>(kernel)];
  };
  if (generation >= Generation::hopper) {
    rate(AttentionKernel::newest) = {
        .wide = {0.59, 0.53}, .narrow = {0.42, 0.43}, .diagonal = {300, 950}, .longest_sequence = 8192};
    rate(AttentionKernel::flash2) = {
        .wide = {0.34, 0.325}, .narrow = {0.31, 0.285}, .diagonal = {300, 1050}, .longest_sequence = 65536};
    rate(AttentionKernel::flash1) = {.wide = {0.25, 0.19}, .narrow = {0.25, 0.19}};
    return rates;
  }
  rate(AttentionKernel::flash2) = {
      .wide = {0.62, 0.52}, .narrow = {0.55, 0.48}, .diagonal = {250, 500}, .longest_sequence = 5120};
  rate(AttentionKernel::flash1) = {.wide = {0.40, 0.30}, .narrow = {0.40, 0.30}};
  if (generation == Generation::volta) rate(AttentionKernel::flash2) = rate(AttentionKernel::flash1);
  rate(AttentionKernel::newest) = rate(AttentionKernel::flash2);
  return rates;
}

/// NCCL's channels, each of which holds a multiprocessor: 24 of 108 on A100 and 16 of 132 on Hopper with NVSwitch are
/// assumed, and a tenth elsewhere. Products, attention and additions beside a kernel that streams on some of an H200's
/// multiprocessors took 4 to 6 % longer with 8 of them, 8 to 16 % with 16, 12 to 22 % with 24.
double collective_share(std::string_view gpu, Generation generation) {
  if (generation >= Generation::hopper) return 16.0 / 132;
  return generation == Generation::ampere && gpu.ends_with("sxm") ? 24.0 / 108 : 0.1;
}

}  // namespace

KernelEfficiency kernel_efficiency(std::string_view gpu, Generation generation) {
  const bool hopper = generation >= Generation::hopper;
  KernelEfficiency efficiency;
  efficiency.matmul_peak = matmul_peak(gpu, generation);
  efficiency.batched_product = hopper ? 0.80 : 0.65;
  efficiency.attention = attention_rates(generation);
  efficiency.collective_share = collective_share(gpu, generation);
  // Dropout in fused attention, measured on an H200 in causal attention of 67 to 537 million
  // pairs: cuDNN's kernels for Hopper, and FlashAttention 2 for Ampere, which is assumed to take as many cycles there.
  efficiency.dropout_cycles_forward = hopper ? 0.219 : 0.085;
  efficiency.dropout_cycles_backward = hopper ? 0.133 : 0.135;
  efficiency.dropout_start_forward_s = hopper ? 53e-6 : 14e-6;
  efficiency.dropout_start_backward_s = hopper ? 26e-6 : 35e-6;
  efficiency.memory = by_kind(hopper ? kHopper : kAmpere);
  // GELU is limited by multiprocessors where the memory is faster than an H100's: PyTorch's exact form on an H200.
  if (gpu == "h200-sxm") efficiency.memory[static_cast<std::size_t>(OperatorKind::gelu)] = {0.61, 0.68};
  return efficiency;
}

}  // namespace lowgear::estimator
