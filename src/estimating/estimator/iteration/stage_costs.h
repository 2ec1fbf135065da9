#pragma once

#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"

namespace lowgear::estimator {

/// Hidden share of the time of a collective that runs concurrently with computation: both slow each other down, since
/// NCCL's kernels take multiprocessors and memory bandwidth.
inline constexpr double kHiddenShare = 0.9;

/// Costs of every virtual stage for one microbatch, without messages between stages.
[[nodiscard]] std::vector<StageEstimate> stages_of(const TrainingJob& job, const CostSources& sources);

/// Messages from each virtual stage to the next.
[[nodiscard]] std::vector<WorkCost> message_costs(const TrainingJob& job, const CostSources& sources);

}  // namespace lowgear::estimator
