#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/schedule/schedule.h"

namespace lowgear {

/// Largest jobs that the server takes: more ranks than any training run has had, and ops of one iteration that still
/// plan in seconds.
inline constexpr int kMaxJobRanks = 100'000;
inline constexpr std::size_t kMaxJobActions = 1'000'000;

/// How the ranks of a job share the work.
struct JobParallel {
  int pp = 1;
  int dp = 1;
  int tp = 1;
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
  double allowance_pct = 2;        ///< what trials may cost, as a share of the time at full clocks
  int allowance_iterations = 500;  ///< of so many iterations
  friend bool operator==(const JobProfiling&, const JobProfiling&) = default;
};

/// What all ranks of a job say alike when they register it (docs/server-api.md).
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
  double switch_latency_ms = 0;  ///< from asking for a clock until it is in effect
  std::optional<JobProfiling> profiling;

  /// What a profile depends on, as text: jobs of the same key share profiles. `simulated`: measured on simulated GPUs,
  /// which tell nothing of real ones of that name.
  [[nodiscard]] std::string profile_key(bool simulated) const;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// Throws InputError with the JSON path on anything missing, unknown, of the wrong kind or out of range.
[[nodiscard]] JobSpec read_job_spec(const JsonView& body);
[[nodiscard]] Json to_json(const JobSpec& spec);
/// Forwards and backwards of an iteration of one pipeline.
[[nodiscard]] std::size_t job_units(const JobSpec& spec);
/// Name of the first member in which they differ; empty when they are equal.
[[nodiscard]] std::string first_difference(const JobSpec& a, const JobSpec& b);

/// The job's schedule without communication. Throws InputError when there is no such schedule, it cannot run, or it
/// does not fit the job's sizes.
[[nodiscard]] Schedule make_schedule(const JobSpec& spec);

/// What a rank says of itself.
struct RankSpec {
  int rank = 0;
  int pp_rank = 0;
  int dp_rank = 0;
  int tp_rank = 0;
  std::string instance;  ///< of the process: the same when it registers again
  std::string host;
  std::string gpu_uuid;
  std::string gpu;
  bool simulated = false;
  std::vector<int> clocks_mhz;  ///< that the GPU supports, highest first
  std::optional<double> power_limit_w;
  bool follows_plans = false;
};

/// Throws InputError, also when the rank has no place in a job of these sizes.
[[nodiscard]] RankSpec read_rank_spec(const JsonView& body, const JobParallel& parallel);
[[nodiscard]] Json to_json(const RankSpec& rank);

}  // namespace lowgear
