#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// Ranks of the largest job: more than any training run has had.
inline constexpr int kMaxJobRanks = 100'000;
/// Highest SM clock that a rank or a profile may name, in MHz.
inline constexpr int kMaxRankClockMhz = 20'000;
/// Switch latency of a job that states none: that of an A100.
inline constexpr double kDefaultSwitchLatencyMs = 25;

/// How the ranks of a job share the model and the data.
struct JobParallel {
  int pp = 1;      ///< pipeline ranks
  int dp = 1;      ///< replicas
  int tp = 1;      ///< ranks that share every layer
  int chunks = 1;  ///< virtual stages per pipeline rank

  [[nodiscard]] int world_size() const { return pp * dp * tp; }
  [[nodiscard]] int stages() const { return pp * chunks; }
  friend bool operator==(const JobParallel&, const JobParallel&) = default;
};

/// How clocks are tried out before there is a profile.
struct JobProfiling {
  int clocks = 6;                  ///< to begin with; more where the plan is uncertain
  int iterations = 5;              ///< counted at each clock, at most
  int settle_iterations = 0;       ///< before them, after each change
  std::optional<int> min_mhz;      ///< empty: 0.6 times the highest
  std::optional<int> max_mhz;      ///< empty: the highest
  double allowance_pct = 2;        ///< cost of trials at most, as a share of the time at full clocks
  int allowance_iterations = 500;  ///< number of iterations in that time
  friend bool operator==(const JobProfiling&, const JobProfiling&) = default;
};

/// A method that makes a job's plans. With `steps` the job plans each of its steps itself, and the server watches it.
enum class JobPolicy : unsigned char { lowgear, perseus, envpipe, steps };
inline constexpr auto kJobPolicies = std::to_array<std::string_view>({"lowgear", "perseus", "envpipe", "steps"});
constexpr std::string_view name(JobPolicy policy) { return kJobPolicies.at(static_cast<std::size_t>(policy)); }
/// Empty: there is none of this name.
[[nodiscard]] std::optional<JobPolicy> find_job_policy(std::string_view name);

/// EnvPipe's settings of a job whose clocks follow its policy; in its own words
/// (rivals/policies/envpipe/envpipe_config.h).
struct JobEnvPipe {
  std::string type = "envelope";
  std::string reconfig = "balanced";
  double threshold_scale = 4;
  double transfer_ms = 1;         ///< is added to every measured wait
  std::optional<int> start_mhz;   ///< highest clock that it uses; empty: the GPUs'
  std::optional<int> lowest_mhz;  ///< empty: the lowest profiled
  int raise_step_mhz = 30;        ///< least rise of a clock in one step
  friend bool operator==(const JobEnvPipe&, const JobEnvPipe&) = default;
};

/// The specification with which all ranks of a job register it (docs/server-api.md); it must be the same for all.
struct JobSpec {
  std::string run;
  std::string name;
  std::string framework;
  std::string model;
  std::string partition;
  std::string gpu;
  JobParallel parallel;
  std::string schedule;  ///< a name, or the text of a CSV in PyTorch's notation
  bool schedule_is_csv = false;
  int microbatches = 1;
  int microbatch_size = 1;
  double slowdown_pct = 0;
  double guard_pct = 2;
  /// Time from the request of a clock until it takes effect; agents request clocks that long ahead.
  double switch_latency_ms = kDefaultSwitchLatencyMs;
  std::optional<JobProfiling> profiling;
  std::optional<JobPolicy> policy;    ///< as the job states it; empty: the server's
  std::optional<JobEnvPipe> envpipe;  ///< of a job that states `policy: envpipe`, and always there then
  /// Of the schedule `envpipe`, by pipeline rank; empty: by its rule, for a backward of twice the time of a
  /// forward and memory without a limit.
  std::vector<int> early_forwards;
  std::optional<std::string> user;  ///< for whom it trains, as the job states it; no process checks it

  /// Everything that a profile depends on, as text: jobs of the same key share profiles. `simulated`: measured on
  /// simulated GPUs, whose profiles are not valid for real ones of that name.
  [[nodiscard]] std::string profile_key(bool simulated) const;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// Throws InputError with the JSON path on anything missing, unknown, of the wrong kind or out of range.
[[nodiscard]] JobSpec read_job_spec(const JsonView& body);
[[nodiscard]] Json to_json(const JobSpec& spec);
/// Name of the first member in which they differ; empty when they are equal.
[[nodiscard]] std::string first_difference(const JobSpec& a, const JobSpec& b);

}  // namespace lowgear::protocol
