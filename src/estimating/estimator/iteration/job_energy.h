#pragma once

#include <string_view>
#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/power/power_model.h"

namespace lowgear::estimator {

/// Energy of one iteration at the highest clocks, for one GPU of each pipeline rank. All tp x cp x dp GPUs of a rank
/// use the same.
struct JobEnergy {
  std::vector<EnergySplit> ranks;  ///< from the first forward to the last backward
  EnergySplit rest;                ///< of each GPU: sums over replicas, optimizer
  int gpus_per_rank = 1;           ///< tp x cp x dp

  /// Energy of all GPUs.
  [[nodiscard]] double total_j() const;
};

/// Energy of an estimate: WorkEnergy of every computation, and blocking power for the rest of the pipeline's time.
[[nodiscard]] JobEnergy estimate_energy(const TrainingJob& job, const IterationEstimate& estimate);

/// The lowest and the highest clock that passes sustain under the power limit at full clocks.
struct SustainedClocks {
  double lowest_mhz = 0;
  double highest_mhz = 0;
};
[[nodiscard]] SustainedClocks sustained_clocks(const GpuModel& gpu, const IterationEstimate& estimate);

/// Energy of each GPU after the pipeline: links busy during `gradients_s`, memory during `optimizer_s`, or blocking
/// power in the part of it in which the CPU updates.
[[nodiscard]] EnergySplit rest_energy(const GpuModel& gpu, const IterationEstimate& estimate);

/// A quick approximation of the plan without slowdown, for comparing many layouts: each pipeline rank runs all
/// computations at the one clock that costs least while the rank keeps up with the slowest. It ignores savings of a
/// plan while the pipeline fills and drains, so that it is mostly above the plan's energy. Joules of one iteration, all
/// GPUs.
[[nodiscard]] double quick_planned_energy_j(const TrainingJob& job, const IterationEstimate& estimate);

/// A share of an iteration's time on one GPU.
struct TimePart {
  std::string_view name;
  double time_s = 0;
};

inline constexpr std::string_view kWaitingPart = "waiting in the pipeline";
inline constexpr std::string_view kGradientsPart = "gradients";
inline constexpr std::string_view kOptimizerPart = "optimizer";

/// The parts of an iteration's time on a GPU of a pipeline rank: each kind of work of its virtual stages over all
/// microbatches, then waiting, gradient sums over replicas and the optimizer. They add up to the iteration's time.
[[nodiscard]] std::vector<TimePart> time_breakdown(const TrainingJob& job, const IterationEstimate& estimate, int rank);

/// The pipeline rank with most work, for which the others wait.
[[nodiscard]] int busiest_rank(const TrainingJob& job, const IterationEstimate& estimate);

}  // namespace lowgear::estimator
