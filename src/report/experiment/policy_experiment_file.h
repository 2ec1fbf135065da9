#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning/planner/policies/envpipe/envpipe_options.h"

namespace lowgear::experiment {

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
  std::string policy;                    ///< by the name that `lowgear plan --policy` takes
  planner::EnvPipeOptions envpipe = {};  ///< used by the policy `envpipe`
  std::string within;                    ///< name of an earlier arm that it takes no longer than; empty: full clocks
  std::string in_order_of;               ///< name of an earlier arm whose order `lowgear` plans in; empty: the job's
};

/// What the YAML file of `lowgear experiment` states when it compares policies on estimated jobs
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

}  // namespace lowgear::experiment
