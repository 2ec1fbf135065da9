#include "estimating/estimator/work/operators.h"

#include <array>
#include <cstddef>

#include "estimating/model/model_config.h"

namespace lowgear::estimator {

WorkCost& WorkCost::operator+=(const WorkCost& other) {
  if (other.core_load != core_load && core_s + other.core_s > 0) {
    core_load = (core_s * core_load + other.core_s * other.core_load) / (core_s + other.core_s);
  }
  core_s += other.core_s;
  memory_s += other.memory_s;
  link_s += other.link_s;
  wait_s += other.wait_s;
  flops += other.flops;
  memory_bytes += other.memory_bytes;
  link_bytes += other.link_bytes;
  error_s += other.error_s;
  return *this;
}

WorkCost operator*(double factor, const WorkCost& cost) {
  return {.core_s = factor * cost.core_s,
          .memory_s = factor * cost.memory_s,
          .link_s = factor * cost.link_s,
          .wait_s = factor * cost.wait_s,
          .flops = factor * cost.flops,
          .memory_bytes = factor * cost.memory_bytes,
          .link_bytes = factor * cost.link_bytes,
          .error_s = factor * cost.error_s,
          .core_load = cost.core_load};
}

WorkCost taking(const WorkCost& cost, double time_s) {
  const double factor = time_s / cost.time_s();
  WorkCost result = cost;
  result.core_s *= factor;
  result.memory_s *= factor;
  result.link_s *= factor;
  result.wait_s *= factor;
  result.error_s *= factor;
  return result;
}

namespace {

/// What one pass of a kind does, in multiples of the elements that it works on.
struct ElementWork {
  double flops = 0;        ///< per element
  double moved = 0;        ///< elements of the op's type that are read or written per element
  double extra_bytes = 0;  ///< bytes per element of another type: masks, fp32 copies
};

double product(const Operator& op) {
  double elements = 1;
  for (const std::int64_t dim : op.dims) elements *= static_cast<double>(dim);
  return elements;
}

/// Kinds that do a fixed amount of work per element of their tensor. Reads and writes as the kernels do them: a norm
/// reads its input and writes its output; its backward reads input and gradient and writes one. The causal softmax
/// reads the lower half alone. Cross entropy works on fp32 logits in several kernels (Megatron's vocabulary-parallel
/// loss): convert (6 bytes), maximum (4), subtract (8), exponential (8), sum (4), divide (8); backward scales (8) and
/// converts back (6). The loss on gathered
/// logits is that of Hugging Face transformers' models: convert to fp32, copy without the last token, logarithm of the
/// softmax; backward clears a gradient for the targets, then that of the softmax, clears and copies for the last token,
/// and converts back. The plain loss has no copies: convert, logarithm of the softmax; backward clears a gradient for
/// the targets, then that of the softmax, and converts back. The fused loss reads logits twice, for their maximum and
/// for the sum, the online loss once for both, and backward reads them and writes their gradient. Random bits of
/// dropout within attention never reach memory.
ElementWork element_work(OperatorKind kind, Pass pass) {
  const bool forward = pass == Pass::forward;
  switch (kind) {
    case OperatorKind::layer_norm:
    case OperatorKind::rms_norm:
      return forward ? ElementWork{8, 2, 0} : ElementWork{16, 3, 0};
    case OperatorKind::residual_add:
      return ElementWork{1, 3, 0};
    case OperatorKind::rotary:
      return ElementWork{6, 2, 0};
    case OperatorKind::attention_mask:
      return ElementWork{1, 2, 1};
    case OperatorKind::softmax:
      return forward ? ElementWork{5, 2, 0} : ElementWork{4, 3, 0};
    case OperatorKind::fused_softmax:
      return forward ? ElementWork{6, 1.5, 0} : ElementWork{5, 2, 0};
    case OperatorKind::gelu:
      return forward ? ElementWork{10, 2, 0} : ElementWork{20, 3, 0};
    case OperatorKind::swiglu:
      return forward ? ElementWork{6, 3, 0} : ElementWork{12, 5, 0};
    case OperatorKind::cross_entropy:
      return forward ? ElementWork{6, 1, 36} : ElementWork{3, 1, 12};
    case OperatorKind::gathered_loss:
      return forward ? ElementWork{5, 1, 20} : ElementWork{3, 1, 32};
    case OperatorKind::plain_loss:
      return forward ? ElementWork{5, 1, 12} : ElementWork{3, 1, 20};
    case OperatorKind::fused_loss:
      return forward ? ElementWork{5, 2, 0} : ElementWork{3, 2, 0};
    case OperatorKind::online_loss:
      return forward ? ElementWork{5, 1, 0} : ElementWork{3, 2, 0};
    case OperatorKind::fused_dropout:
      return ElementWork{1, 0, 0};
    case OperatorKind::dropout:
      return forward ? ElementWork{2, 2, 1} : ElementWork{1, 2, 1};
    case OperatorKind::permute:
      return ElementWork{1, 2, 0};
    case OperatorKind::bias_gradient:
      return {1, 1, 0};
    case OperatorKind::gradient_sum:
      return {1, 1, 8};
    default:
      return {};
  }
}

/// AdamW of mixed precision per parameter: gradient to fp32 and unscale (2 + 8), norm (4), update (read weight, two
/// moments and gradient: 16, write three: 12), copy to the model's type (4 + 2).
constexpr double kOptimizerBytes = 48;
constexpr double kOptimizerFlops = 16;

double linear_bytes(const Operator& op) {
  const auto tokens = static_cast<double>(op.dims[0]);
  const auto inputs = static_cast<double>(op.dims[1]);
  const auto outputs = static_cast<double>(op.dims[2]);
  const double once = tokens * inputs + inputs * outputs + tokens * outputs;
  return (op.pass == Pass::forward ? 1 : 2) * once * bytes_of(op.dtype);
}

/// A batched product of [m, k] and [k, n]: backward is two of them, of the same size.
double batched_product_bytes(const Operator& op) {
  const auto m = static_cast<double>(op.dims[1]);
  const auto k = static_cast<double>(op.dims[2]);
  const auto n = static_cast<double>(op.dims[3]);
  const double once = static_cast<double>(op.dims[0]) * (m * k + k * n + m * n);
  return (op.pass == Pass::forward ? 1 : 2) * once * bytes_of(op.dtype);
}

/// Looks rows up and writes them; backward reads their gradients, adds to the rows (read and write) and has cleared the
/// gradient of the table before.
double embedding_bytes(const Operator& op) {
  const double rows = static_cast<double>(op.dims[0]) * static_cast<double>(op.dims[2]);
  const double table = static_cast<double>(op.dims[1]) * static_cast<double>(op.dims[2]);
  return (op.pass == Pass::forward ? 2 * rows : 3 * rows + table) * bytes_of(op.dtype);
}

/// Products' operands and results, activations, and rows that are put next to each other and back; the router reads the
/// tokens, and the output is written. Backward reads and writes twice as much.
double expert_bytes(const Operator& op) {
  const auto rows = static_cast<double>(op.rows);
  const auto hidden = static_cast<double>(op.dims[1]);
  const auto width = static_cast<double>(op.dims[2]);
  const double first = op.kind == OperatorKind::gated_experts ? 2 * width : width;
  const double tokens = 2 * static_cast<double>(op.dims[0]) * hidden;
  const double once = expert_weights(op) + rows * (5 * hidden + 2 * first + 2 * width) + tokens;
  return (op.pass == Pass::forward ? 1 : 2) * once * bytes_of(op.dtype);
}

/// Of the router those of the experts here.
double expert_flops(const Operator& op) {
  const double hidden = static_cast<double>(op.dims[1]);
  const double experts = static_cast<double>(op.dims[3]);
  const double products =
      static_cast<double>(op.rows) * expert_weights(op) / experts + static_cast<double>(op.dims[0]) * hidden * experts;
  return (op.pass == Pass::forward ? 2 : 4) * products;
}

}  // namespace

std::string_view name(OperatorKind kind) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"embedding",      "layer_norm", "rms_norm",         "residual_add",
                                       "linear",         "rotary",     "attention_scores", "attention_values",
                                       "attention_mask", "softmax",    "fused_softmax",    "fused_attention",
                                       "gelu",           "swiglu",     "cross_entropy",    "optimizer",
                                       "dropout",        "permute",    "bias_gradient",    "gradient_sum",
                                       "gathered_loss",  "plain_loss", "fused_dropout",    "experts",
                                       "gated_experts",  "fused_loss", "online_loss"});
  static_assert(kNames.size() == kOperatorKindCount);
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(CollectiveKind kind) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"});
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_matrix_product(OperatorKind kind) {
  return kind == OperatorKind::linear || kind == OperatorKind::attention_scores ||
         kind == OperatorKind::attention_values || kind == OperatorKind::fused_attention || is_of_experts(kind);
}

double core_load(const GpuModel& gpu, const Operator& op) {
  if (op.kind == OperatorKind::fused_attention || op.kind == OperatorKind::fused_dropout) {
    return gpu.power.attention_share;
  }
  return is_narrow(op.dtype) ? gpu.power.fp8_share : 1;
}

double expert_weights(const Operator& op) {
  const double matrices = op.kind == OperatorKind::gated_experts ? 3 : 2;
  return matrices * static_cast<double>(op.dims[1]) * static_cast<double>(op.dims[2]) * static_cast<double>(op.dims[3]);
}

double flops(const Operator& op) {
  const bool forward = op.pass == Pass::forward;
  switch (op.kind) {
    case OperatorKind::linear:
    case OperatorKind::attention_scores:
    case OperatorKind::attention_values:
      return (forward ? 2 : 4) * product(op);
    // Two products forward; backward computes the scores again, then four. Half of each lies above the diagonal.
    case OperatorKind::fused_attention:
      return (forward ? 2 : 5) * product(op) * static_cast<double>(op.dims[1]) *
             model::pairs_within_window(op.dims[1], op.window);
    case OperatorKind::embedding:
      return static_cast<double>(op.dims[0]) * static_cast<double>(op.dims[2]);
    case OperatorKind::optimizer:
      return kOptimizerFlops * product(op);
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      return expert_flops(op);
    default:
      return element_work(op.kind, op.pass).flops * product(op);
  }
}

double memory_bytes(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::linear:
      return linear_bytes(op);
    case OperatorKind::attention_scores:
    case OperatorKind::attention_values:
      return batched_product_bytes(op);
    // Queries, keys, values and output; backward reads these and the output's gradient and writes three gradients.
    case OperatorKind::fused_attention:
      return (op.pass == Pass::forward ? 4 : 8) * product(op) * bytes_of(op.dtype);
    case OperatorKind::embedding:
      return embedding_bytes(op);
    case OperatorKind::optimizer:
      return kOptimizerBytes * product(op);
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      return expert_bytes(op);
    default: {
      const ElementWork work = element_work(op.kind, op.pass);
      return product(op) * (work.moved * bytes_of(op.dtype) + work.extra_bytes);
    }
  }
}

}  // namespace lowgear::estimator
