#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/schedule/schedule.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::evaluation {

/// Bounds of an experiment on policies.
inline constexpr std::size_t kMaxJobs = 200;
inline constexpr std::size_t kMaxPolicyArms = 32;

/// A job to estimate: a job file of `lowgear estimate` and settings on top of it.
struct PolicyJob {
  std::string name;
  std::string job;                    ///< path of the job file, from the folder of the experiment's file
  std::vector<std::string> settings;  ///< `PATH=VALUE` by the keys of a job file
};

/// A policy that chooses clocks for every job.
struct PolicyArm {
  std::string name;
  std::string policy;                     ///< by the name that `lowgear plan --policy` takes
  policies::EnvPipeOptions envpipe = {};  ///< used by the policy `envpipe`
  std::string within;                     ///< name of an earlier arm that it takes no longer than; empty: full clocks
  std::string in_order_of;                ///< name of an earlier arm whose order `lowgear` plans in; empty: the job's
};

/// The YAML file of `lowgear runs experiment` that compares policies on estimated jobs
/// (docs/experiments.md).
struct PolicyExperiment {
  std::string title;
  std::vector<PolicyJob> jobs;
  std::vector<PolicyArm> arms;  ///< two at least
  std::string baseline;         ///< name of an arm
};

/// Whether a file of experiments compares policies (it has `jobs`), rather than runs of a training. Throws InputError
/// on text that is no YAML.
[[nodiscard]] bool compares_policies(std::string_view text, const std::string& source);

/// Reads the YAML text. Throws InputError with file, line and column on unknown, missing, contradictory or out of range
/// settings.
[[nodiscard]] PolicyExperiment parse_policy_experiment(std::string_view text, const std::string& source);

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

/// Replays all arms of an experiment on an estimated job. EnvPipe gets memory and the time of a transfer from
/// the estimate. Throws InputError naming the arm where a policy cannot plan the job, and the exceptions of
/// `progress`.
[[nodiscard]] ReplayedJob replay_policies(const PolicyExperiment& experiment, const std::string& name,
                                          const estimator::JobEstimate& estimate, Progress* progress = nullptr);

}  // namespace lowgear::evaluation
