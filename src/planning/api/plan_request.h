#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/api/power/power_cap.h"
#include "planning/planner/policies/policy.h"

namespace lowgear::api {

/// A position of the job that runs slower than profiled: one GPU, or the slowest of its tensor-parallel shards.
struct RankSlowdown {
  int replica = 0;  ///< data-parallel copy of the pipeline
  int rank = 0;     ///< place in the pipeline
  double factor = 1;
};

/// The constraints of a job's plan.
struct PlanRequest {
  std::optional<double> deadline_s = {};  ///< longest iteration; empty: by `slowdown_pct`
  /// How much longer than the fastest iteration. Without this and a deadline: as fast as the policy can.
  std::optional<double> slowdown_pct = {};
  std::vector<RankSlowdown> slow = {};             ///< positions that are slower than profiled
  std::optional<PowerCap> power_cap = {};          ///< goes before every policy
  std::vector<std::vector<int>> node_of_gpu = {};  ///< by replica and rank, for caps on nodes; empty: one node
  std::string policy{planner::kLowgearPolicy};
  planner::PolicyTable policies{};  ///< `policy` is one of them
  planner::StepReceiver policy_steps = {};
};

/// The deadlines of plans as a user states them: at most one of the four. None: several plans.
struct Deadlines {
  std::optional<double> deadline_s = {};        ///< one plan, for this iteration time
  std::optional<double> slowdown_pct = {};      ///< one plan, this many per cent after T_min
  std::optional<double> straggler_factor = {};  ///< one plan, as late as a straggler: this many times T_min
  std::optional<int> plans = {};                ///< number of plans, at least 1
};

/// A deadline or time that misses a limit by no more than this, relative to it, keeps it: as the verifier has it.
inline constexpr double kDeadlineRounding = 1e-9;

/// The deadline, or T_min where that is later by no more than rounding to six digits, as times are printed, accounts
/// for. Seconds.
[[nodiscard]] double deadline_or_fastest_s(double deadline_s, double fastest_s);

/// The one deadline that was asked for, in seconds, as deadline_or_fastest_s has it; empty when none was. `fastest_s`
/// is T_min and `slowest_s` T*.
[[nodiscard]] std::optional<double> single_deadline_s(const Deadlines& deadlines, double fastest_s, double slowest_s);

/// That a plan cannot use all of the time that was asked for: `slowest_s` is its T*. Empty where it can.
[[nodiscard]] std::optional<std::string> beyond_least_energy(std::optional<double> deadline_s, double slowest_s);

/// From T_min to T*, in seconds, and the time that plans are compared with.
struct FrontierTimes {
  double fastest_s = 0;
  double slowest_s = 0;
  double reference_s = 0;  ///< of full clocks; outside of the range it is ignored
};

/// The deadlines to plan for: the one that was asked for, or `plans` (20) of them evenly from T_min to T*, both
/// included, the nearest of those between moved to the reference's time; one where T_min and T* are the same.
[[nodiscard]] std::vector<double> deadlines_s(const Deadlines& deadlines, const FrontierTimes& range);

}  // namespace lowgear::api
