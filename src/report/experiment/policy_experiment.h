#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/schedule/schedule.h"
#include "report/experiment/policy_experiment_file.h"

namespace lowgear::experiment {

/// A policy's clocks on one job. One iteration of all its GPUs, *replayed* on an *estimated* profile.
struct ReplayedArm {
  std::string name;  ///< of the arm
  double time_s = 0;
  double energy_j = 0;
  std::string note;                              ///< of the policy; may be empty
  std::optional<schedule::Schedule> order = {};  ///< where it runs another one than the job's
};

/// All arms on one job.
struct ReplayedJob {
  std::string name;
  std::string gpu;  ///< of the catalogue
  int gpus = 0;
  std::int64_t sequences = 0;     ///< of one iteration
  std::int64_t microbatches = 0;  ///< of one replica
  ReplayedArm baseline;
  std::vector<ReplayedArm> arms;   ///< in the order of the file
  std::vector<std::string> notes;  ///< of the estimate

  [[nodiscard]] double throughput_per_s(const ReplayedArm& arm) const {
    return static_cast<double>(sequences) / arm.time_s;
  }
  /// Of the baseline's energy and time, in per cent.
  [[nodiscard]] double saving_pct(const ReplayedArm& arm) const { return 100 * (1 - arm.energy_j / baseline.energy_j); }
  [[nodiscard]] double slowdown_pct(const ReplayedArm& arm) const { return 100 * (arm.time_s / baseline.time_s - 1); }
};

/// Replays all arms of an experiment on an estimated job. EnvPipe gets memory and the time of a transfer as
/// estimator::complete_from gives them. Throws InputError naming the arm where a policy cannot plan the job, and what
/// `progress` throws.
[[nodiscard]] ReplayedJob replay_policies(const PolicyExperiment& experiment, const std::string& name,
                                          const estimator::JobEstimate& estimate, Progress* progress = nullptr);

}  // namespace lowgear::experiment
