#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Factor by which intervals are wider than the sum of the errors of operators, collectives and host, for work that is
/// not modelled: nine in ten published iterations are within it, whichever set of runs is left out (bench/accuracy has
/// the sets).
inline constexpr double kUnmodelledError = 1.6;

/// One line of a breakdown of time.
struct CostItem {
  std::string_view name;  ///< `linear`, `attention`, `tensor parallel`, ... (stage_work.h) for reports
  WorkCost cost;
};

/// Cost of one virtual stage for one microbatch, on one of its tp ranks (all do the same work).
struct StageEstimate {
  std::int64_t layers = 0;
  WorkCost forward;
  WorkCost backward;                     ///< with its recomputation
  WorkCost weight_gradient;              ///< the part of `backward` that a zero-bubble schedule can delay
  std::vector<CostItem> forward_items;   ///< sum to `forward`
  std::vector<CostItem> backward_items;  ///< sum to `backward`
};

/// One iteration of a job at the highest clocks.
struct IterationEstimate {
  std::vector<StageEstimate> stages;  ///< by virtual stage
  double pipeline_s = 0;              ///< first forward to last backward, messages between stages included
  double gradients_s = 0;             ///< the part of sums over replicas that nothing hides
  double optimizer_s = 0;             ///< update, and gathering of weights where ZeRO shards them
  double update_wait_s = 0;           ///< the part of optimizer_s in which the GPU waits for its CPU's update
  double time_s = 0;                  ///< of the iteration: the sum
  double error_s = 0;                 ///< half the width of a 90 % interval
  double bubble_share = 0;            ///< share of GPU time within the pipeline in which ranks wait
  double model_flops_per_gpu_s = 0;   ///< training_flops_per_token x tokens / (time x GPUs): what papers state
  std::vector<std::string> notes;     ///< assumptions, and values outside the measured range, for the user

  [[nodiscard]] double tokens_per_s(const TrainingJob& job) const;
};

/// The sources of times.
struct CostSources {
  const OperatorCosts& operators;
  const CollectiveCosts& collectives;
};

/// Estimates a valid job: operators and collectives of every virtual stage, its schedule replayed by
/// src/planning/simulator on the derived graph, then gradient sums and optimizer. Throws InputError on an invalid job,
/// and what the sources throw.
[[nodiscard]] IterationEstimate estimate_iteration(const TrainingJob& job, const CostSources& sources);

/// Notes for the user that hold for any layout of the job: members of its config.json that are ignored, windows of
/// attention, experts, kernels whose rates are assumed or extrapolated. Notes of an estimate include them.
[[nodiscard]] std::vector<std::string> notes_on_setup(const TrainingJob& job);

}  // namespace lowgear::estimator
