#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "estimating/estimator/job/training_job.h"
#include "report/report/html_page.h"
#include "rivals/evaluation/policy_experiment.h"

namespace lowgear::operations {

/// File with the rows, in the folder of a policy experiment alone.
inline constexpr const char* kReplayedResults = "results.csv";

/// A policy experiment and its jobs, read and checked.
struct PolicyExperimentInput {
  evaluation::PolicyExperiment file;
  std::vector<estimator::TrainingJob> jobs;  ///< in the order of the file
};

/// Reads the file and the job files that it names. Throws InputError with file, line and column, naming the job.
[[nodiscard]] PolicyExperimentInput read_policy_experiment(const std::filesystem::path& path);

/// Estimates every job and replays every arm on it. Throws InputError where a job or an arm cannot be planned.
[[nodiscard]] std::vector<evaluation::ReplayedJob> run_policy_experiment(const PolicyExperimentInput& input,
                                                                         Progress& progress);

/// A table for the terminal, a row for each job and arm, and a legend of its figures.
[[nodiscard]] std::string policy_experiment_text(const evaluation::PolicyExperiment& file,
                                                 const std::vector<evaluation::ReplayedJob>& jobs);
/// `lowgear.replayed_arms/1` (docs/formats.md).
[[nodiscard]] Json policy_experiment_json(const evaluation::PolicyExperiment& file,
                                          const std::vector<evaluation::ReplayedJob>& jobs);
/// The rows as CSV: `job,arm,policy,microbatches,throughput_per_s,time_s,energy_j,saving_pct,slowdown_pct`.
[[nodiscard]] std::string policy_experiment_csv(const evaluation::PolicyExperiment& file,
                                                const std::vector<evaluation::ReplayedJob>& jobs);
/// The page: energy and time of all arms against the baseline, and the table.
[[nodiscard]] report::Page policy_experiment_page(const evaluation::PolicyExperiment& file,
                                                  const std::vector<evaluation::ReplayedJob>& jobs,
                                                  std::string command);

}  // namespace lowgear::operations
