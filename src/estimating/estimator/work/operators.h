#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// Time of some work on one GPU at its highest SM clock, split by limit, so that times at other clocks and energy
/// follow from it: at clock f it takes `core_s` * f_max / f + `memory_s` + `link_s` + `wait_s`.
struct WorkCost {
  double core_s = 0;        ///< kernels limited by the SMs
  double memory_s = 0;      ///< kernels limited by device memory, and launches
  double link_s = 0;        ///< communication that nothing hides
  double wait_s = 0;        ///< nothing runs, at blocking power
  double flops = 0;         ///< done by tensor cores
  double memory_bytes = 0;  ///< read and written
  double link_bytes = 0;    ///< sent by the GPU, hidden or not
  double error_s = 0;       ///< half the width of a 90 % interval of the time
  double core_load = 1;     ///< mean power of the kernels of core_s, as a share of products in 16 bits

  [[nodiscard]] double time_s() const { return core_s + memory_s + link_s + wait_s; }
  /// Times, work and errors are added: kernels of one kind err together.
  WorkCost& operator+=(const WorkCost& other);
  friend WorkCost operator+(WorkCost left, const WorkCost& right) { return left += right; }
  friend WorkCost operator*(double factor, const WorkCost& cost);
};

/// The same work with another total time, in the same shares. The time of `cost` is above 0.
[[nodiscard]] WorkCost taking(const WorkCost& cost, double time_s);

/// One kernel, or the few that always run together, of one GPU.
struct Operator {
  OperatorKind kind = OperatorKind::linear;
  Pass pass = Pass::forward;
  std::array<std::int64_t, 4> dims = {1, 1, 1, 1};  ///< see OperatorKind; unused ones are 1
  DataType dtype = DataType::bf16;
  std::int64_t rows = 1;    ///< of experts: one for each pair of a token and an expert of this rank that it uses
  std::int64_t window = 0;  ///< of fused attention and its dropout: most tokens that each attends to; 0: no limit
  AttentionKernel kernel = AttentionKernel::newest;  ///< of fused attention

  friend bool operator==(const Operator&, const Operator&) = default;
};

/// Whether tensor cores do the work: `linear`, `attention_scores`, `attention_values`, `fused_attention`, and experts,
/// most of whose work they do.
[[nodiscard]] bool is_matrix_product(OperatorKind kind);

/// Whether the operator is a whole mixture of experts. A layer's work has its parts, which may be sampled together.
[[nodiscard]] inline bool is_of_experts(OperatorKind kind) {
  return kind == OperatorKind::experts || kind == OperatorKind::gated_experts;
}

/// Whether the host launches a kernel for the operator; another operator's kernel does the work of `fused_dropout`.
[[nodiscard]] inline bool is_launched(OperatorKind kind) { return kind != OperatorKind::fused_dropout; }

/// Floating-point operations (a multiply-add is two), and the least bytes that are read from and written to device
/// memory. Both are above 0 for valid dims, except that `fused_dropout` moves nothing.
[[nodiscard]] double flops(const Operator& op);
[[nodiscard]] double memory_bytes(const Operator& op);

/// Power of multiprocessors that the operator keeps busy, as a share of that of products in 16 bits.
[[nodiscard]] double core_load(const GpuModel& gpu, const Operator& op);

/// Elements of the matrices of a mixture's experts on this rank, without the router.
[[nodiscard]] double expert_weights(const Operator& op);

/// A source of times of operators: the data sheet (RooflineCosts) or measurements (MeasuredOperatorCosts).
class OperatorCosts {
 public:
  virtual ~OperatorCosts() = default;
  /// Throws InputError if the source does not have this kind.
  [[nodiscard]] virtual WorkCost cost(const Operator& op) const = 0;
  /// Cost of operators that were measured together. Empty if they were not; the caller then adds their costs.
  [[nodiscard]] virtual std::optional<WorkCost> cost_of_whole(const Operator& /*whole*/) const { return std::nullopt; }
};

/// Collectives of a training job. Sizes are those of the whole message: each rank's contribution to an all-reduce, its
/// result of an all-gather, its input of a reduce-scatter or all-to-all, the message of a send.
enum class CollectiveKind : unsigned char { all_reduce, all_gather, reduce_scatter, all_to_all, send };
[[nodiscard]] std::string_view name(CollectiveKind kind);

/// The ranks of a collective: `ranks` in all, `ranks_per_node` of them on each node. Other groups use the other GPUs of
/// the nodes at the same time, each with its GPUs' own adapters.
struct RankGroup {
  int ranks = 1;
  int ranks_per_node = 1;

  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

class CollectiveCosts {
 public:
  virtual ~CollectiveCosts() = default;
  /// Cost on one rank; 0 for a group of one. Throws InputError if the source does not have this kind or group.
  [[nodiscard]] virtual WorkCost cost(CollectiveKind kind, double bytes, const RankGroup& group) const = 0;
};

}  // namespace lowgear::estimator
