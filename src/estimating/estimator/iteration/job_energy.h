#pragma once

#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/power/power_model.h"

namespace lowgear::estimator {

/// Energy of one iteration at the highest clocks, by pipeline rank. Of one GPU of each; the others of its tp x cp x dp
/// do the same.
struct JobEnergy {
  std::vector<EnergySplit> ranks;  ///< from the first forward to the last backward
  EnergySplit rest;                ///< of any GPU: sums over replicas, optimizer
  int gpus_per_rank = 1;           ///< tp x cp x dp

  /// All GPUs.
  [[nodiscard]] double total_j() const;
};

/// Energy of an estimate: every computation as WorkEnergy has it, and the rest of the pipeline's time at blocking
/// power.
[[nodiscard]] JobEnergy estimate_energy(const TrainingJob& job, const IterationEstimate& estimate);

/// What follows the pipeline on any GPU: links busy during `gradients_s`, memory during `optimizer_s`.
[[nodiscard]] EnergySplit rest_energy(const GpuModel& gpu, const IterationEstimate& estimate);

/// A quick stand-in for a plan that takes no longer, for comparing many layouts: every computation of a pipeline rank
/// runs at the one clock that costs least while the rank keeps up with the slowest. It leaves out what a plan gains
/// while the pipeline fills and drains, so that it is mostly above the plan's energy. Joules of one iteration, all
/// GPUs.
[[nodiscard]] double quick_planned_energy_j(const TrainingJob& job, const IterationEstimate& estimate);

}  // namespace lowgear::estimator
