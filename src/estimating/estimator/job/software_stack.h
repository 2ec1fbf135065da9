#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// The implementation of the loss.
enum class LossKind : unsigned char {
  split,     ///< in fp32, each tp rank from its part of the vocabulary, as Megatron does
  gathered,  ///< in fp32, each tp rank from all logits, as transformers' models do when divided from outside
  plain,     ///< the same without their copies of logits: PyTorch's cross entropy alone
  fused,     ///< one kernel each way, which keeps logits in the type of the head (flash-attention's, Liger's, compiled)
  online,    ///< the same, reading logits once, with their gradient written over them (Lowgear's)
};

[[nodiscard]] std::string_view name(LossKind loss);  ///< `split`, `gathered`, `plain`, `fused`, `online`

/// Time of the framework on the CPU to launch work; it counts if the GPU would be done sooner. Defaults were measured
/// on a transformer layer in eager PyTorch 2.11: means of two runs on hosts of H100s.
struct HostCosts {
  double operator_s = 45e-6;               ///< of an Operator, which is several calls
  double collective_s = 90e-6;             ///< of a collective
  double checkpoint_forward_s = 0.22e-3;   ///< of full recomputation in the forward of a layer, in addition
  double checkpoint_backward_s = 0.73e-3;  ///< of full recomputation in the backward of a layer, in addition

  friend bool operator==(const HostCosts&, const HostCosts&) = default;
};

/// Number of times that an operator's kernel runs in each direction, or the multiple of its work.
struct PassTimes {
  double forward = 1;
  double backward = 1;
};

/// How a framework runs the layers, the loss and sharded weights of a job: a row of a table (software_stack.cpp), of
/// which a job may change members.
struct SoftwareStack {
  std::string_view name;
  std::string_view summary;  ///< one line for help texts
  bool fused_gate = true;    ///< a gated MLP's activation is one kernel; otherwise SiLU and product are two
  std::optional<PassTimes> rotary_passes = std::nullopt;  ///< copies that rotary embeddings are worth; none: a kernel
  bool fused_norms = true;                                ///< an RMS norm is a kernel, not single operations in fp32
  std::optional<PassTimes> norm_passes = std::nullopt;    ///< copies that a fused norm is worth; none: PyTorch's kernel
  bool fused_residual = false;                            ///< the norm's kernels also add the residual
  bool joined_products = true;      ///< queries, keys and values are one product, gate and up another
  bool joins_gradients = false;     ///< a copy puts the gradients of queries, keys and values side by side
  bool repeats_keys = false;        ///< a copy gives each head of queries its own keys and values
  bool fused_gradient_sums = true;  ///< products of weight gradients add to the iteration's sums themselves
  LossKind loss = LossKind::split;
  AttentionKernel attention = AttentionKernel::newest;
  /// ZeRO 3 gathers a layer's weights before the layer above ends its backward; otherwise the backward waits for it.
  bool gathers_ahead = true;
  /// In fp8, a tensor's scale is its own largest value, which a pass of its own finds; otherwise that of iterations
  /// before (TransformerEngine's delayed scaling).
  bool scales_dynamically = false;
  bool copies_gathered = false;  ///< ZeRO 3 copies gathered weights to their places (FSDP2)
  /// Types of weights, gradients and messages with gradients where they differ from the usual ones of the job's dtype
  /// (memory_estimate.h, summed_gradient_bytes).
  std::optional<DataType> weights = std::nullopt;
  std::optional<DataType> gradients = std::nullopt;
  std::optional<DataType> reductions = std::nullopt;
  HostCosts host = {};
  /// Layouts that the software runs.
  bool only_replicas = false;  ///< dp alone, no tp, pp or cp
  int least_zero = 0;
  int most_zero = 3;
};

/// The name, with what differs from the row of that name in brackets: `megatron (weights fp8, gradients bf16)`.
[[nodiscard]] std::string describe(const SoftwareStack& stack);

/// `lowgear runs ZeRO 0 to 1 only`; empty if it runs all layouts.
[[nodiscard]] std::string limits_text(const SoftwareStack& stack);

/// All rows, the default first.
[[nodiscard]] std::span<const SoftwareStack> software_stacks();

/// Throws InputError with the nearest name.
[[nodiscard]] const SoftwareStack& named_stack(std::string_view name);

}  // namespace lowgear::estimator
