#include "estimating/estimator/gpu/gpu_tables.h"

#include <algorithm>
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
/// for 8192 x 32,000 logits on an H200. The plain loss on Hopper, and sums over tokens: PyTorch's on an H200, 16,384 x
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
  set(OperatorKind::embedding, shares.embedding);
  set(OperatorKind::optimizer, shares.optimizer);
  return table;
}

bool is_hopper_or_later(std::string_view gpu) {
  return gpu.starts_with("h") || gpu.starts_with("gh") || gpu.starts_with("b");
}

/// Products. A100, GH200: forward products of the same samples (their backward ran on gradients near zero, which cost
/// less power than those of training). H100, H200: bf16 products of 8192 x 8192 sustained at the power limit, as
/// docs/estimating.md has measured: 680 and 663 TFLOP/s. The H100's share is the mean of 60 products of transformers'
/// shapes; the H200's that of products in training, 700 TFLOP/s of 2048 wide layers and 710 to 760 of 4096 wide ones.
double matmul_peak(std::string_view gpu) {
  if (gpu == "h100-sxm") return 0.725;
  if (gpu == "h200-sxm") return 0.77;
  if (gpu == "gh200") return 0.86;
  return gpu.starts_with("a100") ? 0.87 : 0.75;
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
std::array<AttentionRate, kAttentionKernelCount> attention_rates(bool hopper) {
  std::array<AttentionRate, kAttentionKernelCount> rates;
  const auto rate = [&rates](AttentionKernel kernel) -> AttentionRate& {
    return rates[static_cast<std::size_t>(kernel)];
  };
  if (hopper) {
    rate(AttentionKernel::newest) = {.wide = {0.59, 0.53}, .narrow = {0.42, 0.43}, .diagonal = {300, 950}};
    rate(AttentionKernel::flash2) = {.wide = {0.34, 0.325}, .narrow = {0.31, 0.285}, .diagonal = {300, 1050}};
    rate(AttentionKernel::flash1) = {.wide = {0.25, 0.19}, .narrow = {0.25, 0.19}};
    return rates;
  }
  rate(AttentionKernel::flash2) = {.wide = {0.62, 0.52}, .narrow = {0.55, 0.48}, .diagonal = {250, 500}};
  rate(AttentionKernel::newest) = rate(AttentionKernel::flash2);
  rate(AttentionKernel::flash1) = {.wide = {0.40, 0.30}, .narrow = {0.40, 0.30}};
  return rates;
}

/// NCCL's channels, each of which holds a multiprocessor: 24 of 108 on A100 and 16 of 132 on Hopper with NVSwitch are
/// assumed, and a tenth elsewhere. Products, attention and additions beside a kernel that streams on some of an H200's
/// multiprocessors took 4 to 6 % longer with 8 of them, 8 to 16 % with 16, 12 to 22 % with 24.
double collective_share(std::string_view gpu, bool hopper) {
  if (hopper) return 16.0 / 132;
  return gpu.starts_with("a100") && gpu.ends_with("sxm") ? 24.0 / 108 : 0.1;
}

}  // namespace

KernelEfficiency kernel_efficiency(std::string_view gpu) {
  const bool hopper = is_hopper_or_later(gpu);
  KernelEfficiency efficiency;
  efficiency.matmul_peak = matmul_peak(gpu);
  efficiency.batched_product = hopper ? 0.80 : 0.65;
  efficiency.attention = attention_rates(hopper);
  efficiency.collective_share = collective_share(gpu, hopper);
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

namespace {

/// What each number rests on:
/// [h100]    data/h100-sxm and docs/estimating.md, measured with Lowgear: an H100 SXM idle 68 W, with a context 114-121
/// W, in
///           a kernel that only waits 116 W; matrix products at the limit of 700 W run at 1340 MHz on average; kernels
///           limited by memory draw 490-670 W at 1980 MHz, 560 W on average.
/// [h200]    data/h200-sxm and docs/estimating.md, measured with Lowgear: idle 78 W; all-reduces, all-gathers and
///           reduce-scatters over NVLink at 80 % of its rate draw 290-340 W.
/// [limits]  artifact of Perseus (SOSP'24): whole iterations of gpt3-xl on A100 PCIe under power limits of 175-300 W,
///           and times of its instructions from 1050 to 1260 MHz (`zeus/A100`, `runs/gpt3-xl_A100_pp4_mbs8_nmb128`). Of
///           a microbatch, 0.185 s do not follow the clock and are taken for memory, 0.229 s at 1410 MHz do. Energy is
///           62-65 W x time, 24 J of memory, and a rest that is the same from 522 to 1050 MHz (within 2 %), 15 % more
///           at 1130 and 28 % more at 1215 MHz: the square of the voltage. 11 J of the rest are the memory's
///           multiprocessors.
/// [bloom]   the same artifact's stage profile of Bloom 176B on A40, backward, 855-1440 MHz (above, its limit of 300 W
///           holds the clock), read the same way: 61 W x time, 7 J of memory, 0.126 s that follow the clock, and a rest
///           that is the same from 855 to 1140 MHz and 44 % more at 1440 MHz.
/// [waiting] the same artifact: a GPU that waits for a peer draws 83.64 W (A100) and 70.38 W (A40).
/// [ga102]   the A40's, which has the same chip: its voltage curve as a function of the clock, extended in a straight
/// line
///           from 1740 to 2100 MHz (17.1 % more voltage), and power in proportion to multiprocessors, clock and the
///           square of the voltage; memory by its bandwidth. Graphics memory of another kind (GDDR6X on the RTX 3090)
///           is assumed to use the same energy per byte.
/// [scaled]  from the H100's: memory by its bandwidth, links by their rate; from the A100's: the voltage curve,
/// stretched
///           to another highest clock.
/// [assumed] no measurement was found; the order of magnitude is that of the neighbouring models. That half of what
/// memory
///           adds follows the clock is assumed of all.
/// Nothing was fitted on the artifact's profile of GPT-3 175B on A100 SXM, which bench/accuracy checks against.
struct PowerEntry {
  std::string_view name;
  double idle_w;
  double static_w;
  double clock_tree_w;
  double blocking_w;
  double compute_w;
  double memory_w;  ///< both halves together
  double link_w;
  double voltage_floor;
  double voltage_knee_mhz;
};

constexpr auto kPowers = std::to_array<PowerEntry>({
    // [assumed], voltage [scaled]
    {"v100-16gb-sxm", 40, 60, 15, 62, 330, 130, 70, 0.79, 1140},
    {"v100-sxm", 40, 60, 15, 62, 330, 130, 70, 0.79, 1140},
    // static power, compute and voltage [bloom], blocking [waiting], the rest [assumed]
    {"a40", 30, 68, 15, 70.38, 480, 150, 20, 0.72, 1150},
    // compute, voltage and memory [ga102], blocking power that of the A40, the rest [assumed]
    {"rtx-3090", 30, 68, 15, 70.38, 775, 202, 20, 0.615, 1150},
    {"rtx-a6000", 30, 68, 15, 70.38, 794, 166, 20, 0.615, 1150},
    // static power, compute and voltage [limits], blocking [waiting], memory and links [scaled], the rest [assumed]
    {"a100-40gb-sxm", 52, 75, 20, 83.64, 384, 210, 145, 0.79, 1050},
    {"a100-80gb-pcie", 45, 75, 20, 83.64, 384, 260, 20, 0.79, 1050},
    {"a100-80gb-sxm", 52, 75, 20, 83.64, 384, 270, 145, 0.79, 1050},
    // [h100] and [h200] but for the voltage curve, which is [scaled]; that 34 W follow the clock is [assumed]
    {"h100-pcie", 50, 85, 25, 88, 880, 270, 30, 0.87, 1475},
    {"h100-sxm", 68, 114, 34, 116, 1430, 446, 220, 0.79, 1475},
    {"h200-sxm", 78, 120, 34, 122, 1430, 480, 220, 0.79, 1475},
    {"gh200", 80, 125, 34, 128, 1430, 460, 220, 0.79, 1475},
    // [assumed]: half the energy per operation of the H100; voltage [scaled]
    {"b200", 140, 200, 60, 205, 1490, 600, 400, 0.79, 1463},
});

}  // namespace

GpuPowerModel power_model(std::string_view gpu, double limit_w) {
  const auto* const entry = std::ranges::find(kPowers, gpu, &PowerEntry::name);
  if (entry == kPowers.end()) return {.limit_w = limit_w};
  return {.idle_w = entry->idle_w,
          .static_w = entry->static_w,
          .clock_tree_w = entry->clock_tree_w,
          .blocking_w = entry->blocking_w,
          .compute_w = entry->compute_w,
          .memory_w = entry->memory_w / 2,
          .memory_sm_w = entry->memory_w / 2,
          .link_w = entry->link_w,
          .limit_w = limit_w,
          .voltage_floor = entry->voltage_floor,
          .voltage_knee_mhz = entry->voltage_knee_mhz};
}

}  // namespace lowgear::estimator
