#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimating/estimator/costs/measured_costs.h"
#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "planning/profile/profile_file.h"

namespace lowgear::estimator {

/// Sampling files to estimate with.
struct SampleSet {
  std::string folder;             ///< their folder, for messages; empty without samples
  std::vector<SampleFile> files;  ///< of any GPUs
};

/// The sources of costs of a job's operators and collectives: samples if given, data sheets otherwise and for operators
/// without samples.
class JobCosts {
 public:
  /// Throws InputError if samples are given and none is of the job's GPU.
  JobCosts(const TrainingJob& job, const SampleSet& samples);
  ~JobCosts() = default;
  JobCosts(const JobCosts&) = delete;
  JobCosts& operator=(const JobCosts&) = delete;

  [[nodiscard]] CostSources sources() const;
  /// Notes for the user about the samples used so far.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  RooflineCosts data_sheet_;
  LinkCosts links_;
  std::optional<MeasuredOperatorCosts> operators_;
  std::optional<MeasuredCollectiveCosts> collectives_;
  std::vector<std::string> notes_;  ///< about the samples
};

/// The job on a software stack, all else being equal.
struct StackEstimate {
  std::string name;         ///< as describe(SoftwareStack) has it
  double time_s = 0;        ///< of an iteration
  double memory_bytes = 0;  ///< of the fullest rank
  bool fits = true;         ///< MemoryEstimate::within_capacity
};

/// The estimate of a job that has not run. All figures are *estimated*.
struct JobEstimate {
  TrainingJob job;
  MemoryEstimate memory;
  std::optional<MemoryOverflow> overflow;  ///< if the estimate exceeds the capacity, also within its error
  IterationEstimate iteration;
  std::vector<StackEstimate> stacks;  ///< of the table; the job's own first where it has changed members
};

/// Time, energy and memory of a job, from samples if there are any. Throws as JobCosts does.
[[nodiscard]] JobEstimate estimate_job(TrainingJob job, const SampleSet& samples);

/// `emitted_profile`, all of it predicted, with blocking power; activations of a microbatch by stage, with their share
/// of fragmentation, if each rank runs one stage in 1F1B's order; the message from each stage to the next one, if
/// messages do not run concurrently with computation.
[[nodiscard]] profile::ProfileFile emitted_file(const JobEstimate& estimate);

}  // namespace lowgear::estimator
