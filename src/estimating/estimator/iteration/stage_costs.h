#pragma once

#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"

namespace lowgear::estimator {

/// Hidden share of the time of a collective that runs concurrently with computation: its kernel holds multiprocessors,
/// and the computation takes longer by their share.
[[nodiscard]] inline double hidden_share(const GpuModel& gpu) { return 1 - gpu.efficiency.collective_share; }

/// Costs of every virtual stage for one microbatch, without messages between stages.
[[nodiscard]] std::vector<StageEstimate> stages_of(const TrainingJob& job, const CostSources& sources);

/// Messages from each virtual stage to the next.
[[nodiscard]] std::vector<WorkCost> message_costs(const TrainingJob& job, const CostSources& sources);

}  // namespace lowgear::estimator
