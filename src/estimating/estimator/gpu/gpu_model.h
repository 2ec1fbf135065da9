#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/gpu/operator_kind.h"

namespace lowgear::estimator {

enum class DataType : unsigned char { fp32, tf32, fp16, bf16, fp8 };

/// As users write it: `bf16`.
[[nodiscard]] std::string_view name(DataType type);

/// Bytes of one element as activations and weights are stored (tf32 as fp32; fp8 as the one byte that matrices read).
[[nodiscard]] int bytes_of(DataType type);

/// SM clocks that a GPU can be locked to: every `step_mhz` from `max_mhz` down to `min_mhz`.
struct ClockSteps {
  int min_mhz = 0;
  int max_mhz = 0;
  int step_mhz = 15;
};

/// A share of the data sheet's value, in each direction.
struct PassShares {
  double forward = 0.8;
  double backward = 0.8;
};

/// Speed of kernels as a share of the data sheet's values. Fitted to measurements of operators (never to measured
/// iterations); gpu_efficiency.cpp names the data of each GPU.
struct KernelEfficiency {
  double matmul_peak = 0.8;        ///< of tensor FLOP/s, products whose tiles fill all multiprocessors
  double batched_product = 0.65;   ///< of memory bandwidth, products of unfused attention
  PassShares attention{0.5, 0.4};  ///< of tensor FLOP/s, fused attention of many tiles
  /// What fused attention takes in addition: tiles that start and end, and before the backward the sums it needs.
  double attention_start_forward_s = 22e-6;
  double attention_start_backward_s = 60e-6;
  /// What dropout adds to fused attention: clock cycles of one multiprocessor for each pair of tokens that the causal
  /// mask leaves, and a time for each kernel.
  double dropout_cycles_forward = 0;
  double dropout_cycles_backward = 0;
  double dropout_start_forward_s = 0;
  double dropout_start_backward_s = 0;
  std::array<PassShares, kOperatorKindCount> memory{};  ///< of memory bandwidth, large tensors, by kind
  double launch_s = 3e-6;                               ///< least time of a kernel
};

/// Power of one GPU by what it does (power_model.h has the formulas).
struct GpuPowerModel {
  double idle_w = 0;            ///< no process uses it
  double static_w = 0;          ///< awake at the highest clock while nothing runs
  double clock_tree_w = 0;      ///< the part of static_w that goes with clock x voltage^2
  double blocking_w = 0;        ///< spins in a collective that waits for a peer, at the highest clock
  double compute_w = 0;         ///< what busy multiprocessors add at the highest clock
  double memory_w = 0;          ///< what kernels limited by memory add, whatever the clock
  double memory_sm_w = 0;       ///< and what their multiprocessors add at the highest clock
  double link_w = 0;            ///< what links add at full rate
  double limit_w = 0;           ///< power limit; in the catalogue the default (TDP)
  double kernel_limit_w = 0;    ///< limit under which kernels take the times of KernelEfficiency; 0: limit_w
  double voltage_floor = 1;     ///< lowest voltage as a share of that at the highest clock
  double voltage_knee_mhz = 0;  ///< clock up to which the voltage is at its floor; above it rises in a line
};

/// A GPU as its data sheet states it, a field for each line of it, and as it was measured to run.
struct GpuModel {
  std::string name;         ///< as users write it: `h100-sxm`
  double fp16_flops = 0;    ///< dense tensor FLOP/s of fp16 at the data sheet's clock, and of bf16 where there is any
  bool bf16 = true;         ///< tensor cores take bf16 (from Ampere on)
  double fp8_flops = 0;     ///< 0 where there are none
  double tf32_flops = 0;    ///< 0 where there are none
  double fp32_flops = 0;    ///< outside the tensor cores
  double memory_bytes = 0;  ///< in all; memory_estimate.h says what of it the driver and CUDA keep
  double memory_bytes_per_s = 0;
  double l2_bytes = 0;
  int multiprocessors = 0;
  ClockSteps clocks;
  double link_bytes_per_s = 0;  ///< NVLink (or PCIe) of one GPU, one direction, all links
  KernelEfficiency efficiency;
  GpuPowerModel power;
};

/// Peak FLOP/s of matrix products whose inputs have the type. Throws InputError where the GPU has none.
[[nodiscard]] double peak_flops(const GpuModel& gpu, DataType type);

/// The name in the catalogue of the GPU that a name means: one of the catalogue, where case, `-`, `_` and blanks do not
/// matter; a short one such as `a100`, `a100-sxm` or `h100`; or what the driver calls it and nvidia-smi prints (`NVIDIA
/// H100 80GB HBM3`), also without its blanks. Empty for GPUs of the same families that the catalogue does not have
/// (`NVIDIA H100 NVL`) and for instances, which are parts of a GPU.
[[nodiscard]] std::optional<std::string_view> gpu_of_name(std::string_view name);

/// A GPU of the catalogue by any of its names. Throws InputError naming those that may be meant.
[[nodiscard]] GpuModel named_gpu(std::string_view name);

/// Names of the catalogue without aliases, oldest GPU first.
[[nodiscard]] std::vector<std::string> gpu_names();

}  // namespace lowgear::estimator
