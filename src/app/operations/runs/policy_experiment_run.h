#pragma once

#include <filesystem>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/job/training_job.h"
#include "report/experiment/policy_experiment.h"

namespace lowgear::operations {

/// An experiment on policies with its jobs, read and checked.
struct PolicyExperimentInput {
  experiment::PolicyExperiment file;
  std::vector<estimator::TrainingJob> jobs;  ///< in the order of the file
};

/// Reads the file and the job files that it names. Throws InputError with file, line and column, naming the job.
[[nodiscard]] PolicyExperimentInput read_policy_experiment(const std::filesystem::path& path);

/// Estimates every job and replays every arm on it. Throws InputError where a job or an arm cannot be planned.
[[nodiscard]] std::vector<experiment::ReplayedJob> run_policy_experiment(const PolicyExperimentInput& input,
                                                                         Progress& progress);

}  // namespace lowgear::operations
