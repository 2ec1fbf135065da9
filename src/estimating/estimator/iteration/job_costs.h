#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimating/estimator/costs/link_costs.h"
#include "estimating/estimator/costs/measured_collectives.h"
#include "estimating/estimator/costs/measured_costs.h"
#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// Sampling files to estimate with.
struct SampleSet {
  std::string folder;             ///< where they come from, for messages; empty: none are given
  std::vector<SampleFile> files;  ///< of any GPUs
};

/// Where the costs of a job's operators and collectives come from: data sheets, or samples where they are given, and
/// data sheets for what was not sampled.
class JobCosts {
 public:
  /// Throws InputError where samples are given and none is of the job's GPU.
  JobCosts(const TrainingJob& job, const SampleSet& samples);
  ~JobCosts() = default;
  JobCosts(const JobCosts&) = delete;
  JobCosts& operator=(const JobCosts&) = delete;

  [[nodiscard]] CostSources sources() const;
  /// What the user should know of the samples that were used so far.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  RooflineCosts data_sheet_;
  LinkCosts links_;
  std::optional<MeasuredOperatorCosts> operators_;
  std::optional<MeasuredCollectiveCosts> collectives_;
  std::vector<std::string> notes_;  ///< on the samples
};

}  // namespace lowgear::estimator
