#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// The purpose of work: one line of a report.
enum class WorkPart : unsigned char {
  linear,
  attention,
  normalisation,
  elementwise,
  experts,
  embedding,
  cross_entropy,
  gradient_sums,
  recomputation,
  tensor_parallel,
  context_parallel,
  expert_parallel,
  sharded_weights,
  sharded_gradients,
  pipeline,
  host,
  offload,
};
inline constexpr int kWorkPartCount = 17;
/// The name in reports: `tensor parallel`.
[[nodiscard]] std::string_view name(WorkPart part);

struct OperatorUse {
  Operator op;
  double times = 1;
  WorkPart part = WorkPart::linear;
};

/// Values of CollectiveUse::overlaps that are no operator.
inline constexpr int kNothing = -1;    ///< the pass waits for the collective
inline constexpr int kWholePass = -2;  ///< all computation of the pass

/// A collective, and the computation that hides it.
struct CollectiveUse {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;
  RankGroup group;
  WorkPart part = WorkPart::tensor_parallel;
  /// Index of the operator of the same pass that it overlaps with, or one of the two values above.
  int overlaps = kNothing;
  double overlap_share = 1;  ///< share of that operator that it may overlap with
};

/// Operators of a pass that may have been sampled as one whole.
struct WholeUse {
  Operator op;
  std::size_t first = 0;  ///< index of the first part
  std::size_t end = 0;    ///< index after the last part
};

/// Work of one rank in one pass of one microbatch.
struct PassWork {
  std::vector<OperatorUse> operators;
  std::optional<WholeUse> experts = std::nullopt;  ///< the operators of the mixture of experts
  std::vector<CollectiveUse> collectives;
  double checkpoint_s = 0;  ///< on the CPU, for recomputation (HostCosts)
};

/// A part of the model with forward and backward: a layer, the embedding, the head.
struct BlockWork {
  PassWork forward;
  PassWork recomputed;  ///< the part of the forward that runs again before the backward
  PassWork backward;
};

/// Work of a valid job on one of its tp * cp ranks, for one microbatch. The layer is a transformer block, which attends
/// to the model's window if `windowed`; the embedding looks tokens up before the first; the head is the norm after the
/// last, the output matrix and the loss.
[[nodiscard]] BlockWork layer_work(const TrainingJob& job, bool windowed = false);
[[nodiscard]] BlockWork embedding_work(const TrainingJob& job);
[[nodiscard]] BlockWork head_work(const TrainingJob& job);

/// The messages with the activations of one microbatch from virtual stage `stage` to the next, or with their gradients.
[[nodiscard]] std::vector<CollectiveUse> message_work(const TrainingJob& job, int stage);

}  // namespace lowgear::estimator
