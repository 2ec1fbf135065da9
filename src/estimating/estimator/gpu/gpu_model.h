#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/power/gpu_power.h"
#include "planning/profile/plausibility.h"

namespace lowgear::power {
struct GpuFile;
}

namespace lowgear::estimator {

/// Kinds of computation in the training of a transformer, as they are sampled and predicted. Comments list the `dims`
/// of an Operator (operators.h).
enum class OperatorKind : unsigned char {
  embedding,         ///< {tokens, vocabulary of this rank, hidden}
  layer_norm,        ///< {batch, sequence, width}
  rms_norm,          ///< {batch, sequence, width}
  residual_add,      ///< {batch, sequence, width}
  linear,            ///< {tokens, inputs, outputs}; backward is input and weight gradient
  rotary,            ///< {batch, sequence, heads, head_dim}
  attention_scores,  ///< {batch * heads, sequence, head_dim, sequence}: Q K^T
  attention_values,  ///< {batch * heads, sequence, sequence, head_dim}: P V
  attention_mask,    ///< {batch, heads, sequence, sequence}
  softmax,           ///< {batch, heads, sequence, sequence}
  fused_softmax,     ///< the same: scale, causal mask and softmax in one kernel
  fused_attention,   ///< {batch, sequence, heads, head_dim}, causal
  gelu,              ///< {batch, sequence, width}
  swiglu,            ///< {batch, sequence, width}: of the product's output
  cross_entropy,     ///< {batch, sequence, vocabulary of this rank}
  optimizer,         ///< {parameters of this rank}: AdamW with fp32 master weights
  dropout,           ///< {batch, sequence, width}, or {batch, heads, sequence, sequence} of attention
  permute,           ///< {batch, sequence, width}: rows to and from the experts that they go to; also plain copies
  bias_gradient,     ///< {batch, sequence, width}: sum over tokens
  gradient_sum,      ///< {parameters}: adds the gradients of one microbatch to those of the iteration, in fp32
  gathered_loss,     ///< {batch, sequence, vocabulary}: the loss of Hugging Face transformers, on all logits, in fp32
  plain_loss,        ///< the same: PyTorch's cross entropy in fp32, no copies of logits
  fused_dropout,     ///< {batch, heads, sequence, sequence}: time that dropout adds to a fused attention kernel
  experts,           ///< {tokens, hidden, width, experts of this rank}: router, dispatch, experts with GELU, sum
  gated_experts,     ///< the same with SwiGLU
  fused_loss,        ///< {batch, sequence, vocabulary of this rank}: one kernel each way on logits of the type
  online_loss,       ///< the same, which reads logits once for maximum and sum
};
inline constexpr int kOperatorKindCount = 27;

[[nodiscard]] std::string_view name(OperatorKind kind);

/// Generations of kernels for fused attention.
enum class AttentionKernel : unsigned char {
  newest,  ///< FlashAttention 2 before Hopper, cuDNN's or FlashAttention 3 since
  flash2,
  flash1,
};
inline constexpr int kAttentionKernelCount = 3;

/// The name that users write: `newest`, `flash2`, `flash1`.
[[nodiscard]] std::string_view name(AttentionKernel kernel);

enum class Pass : unsigned char { forward, backward };

/// fp8 and fp4 (NVFP4) are types of what matrix products read; everything else stays in bf16.
enum class DataType : unsigned char { fp32, tf32, fp16, bf16, fp8, fp4 };

[[nodiscard]] constexpr bool is_narrow(DataType type) { return type == DataType::fp8 || type == DataType::fp4; }

/// The name that users write: `bf16`.
[[nodiscard]] std::string_view name(DataType type);

/// Bytes of one element as activations and weights are stored (tf32 as fp32; narrow types as matrices read them, fp4
/// with a scale of a byte for each 16).
[[nodiscard]] double bytes_of(DataType type);

/// A share of the data sheet's value, in each direction.
struct PassShares {
  double forward = 0.8;
  double backward = 0.8;
};

/// Speed of causal fused attention: start + FLOPs x (1 + diagonal / sequence) / (share x tensor FLOP/s).
struct AttentionRate {
  PassShares wide{0.5, 0.4};    ///< share for heads of 128 and more
  PassShares narrow{0.5, 0.4};  ///< for heads of 64 and less; a line between
  PassShares diagonal{0, 0};    ///< tokens: tiles that the mask cuts through, and work for each query
  PassShares start_s{20e-6, 45e-6};
  std::int64_t longest_sequence = 0;  ///< tokens, of those that the rate was fitted to; 0: unknown
};

/// Speed of kernels as a share of the data sheet's values. Fitted to measurements of operators (never to measured
/// iterations); gpu_tables.cpp names the data of each GPU.
struct KernelEfficiency {
  double matmul_peak = 0.8;       ///< of tensor FLOP/s, products whose tiles fill all multiprocessors
  double batched_product = 0.65;  ///< of memory bandwidth, products of unfused attention
  std::array<AttentionRate, kAttentionKernelCount> attention{};  ///< by AttentionKernel
  /// Cost of dropout in fused attention: clock cycles of one multiprocessor for each pair of tokens that the causal
  /// mask leaves, and a time for each kernel.
  double dropout_cycles_forward = 0;
  double dropout_cycles_backward = 0;
  double dropout_start_forward_s = 0;
  double dropout_start_backward_s = 0;
  std::array<PassShares, kOperatorKindCount> memory{};  ///< of memory bandwidth, large tensors, by kind
  double launch_s = 3e-6;                               ///< least time of a kernel
  /// Share of the multiprocessors that a collective's kernel holds: computation beside it is slower by as much.
  double collective_share = 0.1;
};

/// Generations of chips, oldest first: kernels of one reach the same shares of its rates.
enum class Generation : unsigned char {
  volta,         ///< GV100
  ampere,        ///< GA100
  ampere_ga102,  ///< with graphics memory
  hopper,
  blackwell,
};

/// A GPU: a field for each line of its data sheet, and its measured efficiency and power.
struct GpuModel {
  std::string name;  ///< as users write it: `h100-sxm`
  Generation generation = Generation::hopper;
  double fp16_flops = 0;        ///< dense tensor FLOP/s of fp16 (and bf16) at the highest clock
  bool bf16 = true;             ///< tensor cores support bf16 (since Ampere)
  double fp8_flops = 0;         ///< 0 without support
  double fp4_flops = 0;         ///< 0 without support
  double tf32_flops = 0;        ///< 0 without support
  double fp32_flops = 0;        ///< outside the tensor cores
  double data_sheet_share = 1;  ///< of these rates that the data sheet states, which may be for a lower clock
  double memory_bytes = 0;      ///< total; memory_estimate.h subtracts the share of driver and CUDA
  double memory_bytes_per_s = 0;
  double l2_bytes = 0;
  int multiprocessors = 0;
  power::ClockSteps clocks;
  double link_bytes_per_s = 0;  ///< NVLink (or PCIe) of one GPU, one direction, all links
  KernelEfficiency efficiency;
  power::GpuPower power;
  std::string power_source;  ///< of its voltage curve
  /// `power` with each figure of a GPU file by itself one standard error off; empty: its errors are not known.
  std::vector<power::GpuPower> power_one_error_off = {};
};

/// Peak FLOP/s of matrix products whose inputs have the type. Throws InputError if the GPU does not support it.
[[nodiscard]] double peak_flops(const GpuModel& gpu, DataType type);

/// The data sheet's peak, of which MFU is a share. Throws InputError if the GPU does not support the type.
[[nodiscard]] double data_sheet_flops(const GpuModel& gpu, DataType type);

/// The catalogue's name of a GPU. `name` may be that name, where case, `-`, `_` and blanks are ignored; a short one
/// such as `a100`, `a100-sxm` or `h100`; or the driver's name, as nvidia-smi prints it (`NVIDIA H100 80GB HBM3`), also
/// without blanks. Empty for GPUs of the same families outside the catalogue (`NVIDIA H100 NVL`) and for instances,
/// which are parts of a GPU.
[[nodiscard]] std::optional<std::string_view> gpu_of_name(std::string_view name);

/// A GPU of the catalogue by any of its names. Throws InputError with the nearest names.
[[nodiscard]] GpuModel named_gpu(std::string_view name);

/// Names of the catalogue without aliases, oldest GPU first.
[[nodiscard]] std::vector<std::string> gpu_names();

/// The range in which a property of a catalogue's GPU may be changed while its measured kernels and power still apply.
struct ValueRange {
  double lowest = 0;
  double highest = 0;
};

/// Power limits in watts: half of the data sheet's (the power model was compared with measurements down to 0.58 of it)
/// to 1.25 times, which is what custom cooling gives an A100 (NVIDIA's data sheet: 500 W in place of 400 W).
[[nodiscard]] ValueRange allowed_power_limit_w(const GpuModel& gpu);

/// Bandwidths of memory: half to twice the data sheet's.
[[nodiscard]] ValueRange allowed_memory_bytes_per_s(const GpuModel& gpu);

/// Sizes of memory, for every GPU: 1 GiB to 1 TiB.
[[nodiscard]] ValueRange allowed_memory_bytes();

/// Gives a GPU of the catalogue another power limit. KernelEfficiency still holds for the data sheet's limit;
/// under_power_limit (power_model.h) converts times to the new one. The data sheet's own limit changes nothing.
void set_power_limit(GpuModel& gpu, double limit_w);

/// Gives a GPU the power of a measured one. Throws InputError if that is of another model.
void set_gpu_file(GpuModel& gpu, const power::GpuFile& file);

/// Gives a GPU memory of another bandwidth. The energy of a byte stays.
void set_memory_bandwidth(GpuModel& gpu, double bytes_per_s);

/// The name, with changes from the catalogue in brackets: `h100-sxm (500 W, 96 GB)`.
[[nodiscard]] std::string describe(const GpuModel& gpu);

/// The data sheet's power limit of a GPU, named as the driver names it (`NVIDIA H100 80GB HBM3`) or as `lowgear
/// estimate` does (`h100-sxm`). Empty for other names, and for an empty one.
[[nodiscard]] std::optional<profile::NamedPowerLimit> power_limit_of(std::string_view gpu_name);

/// Power (W) of a GPU that waits for others at its highest clock. Names as for `power_limit_of`; empty for others.
[[nodiscard]] std::optional<double> blocking_power_of(std::string_view gpu_name);

}  // namespace lowgear::estimator
