#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/adapt/plan_power.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::adapt {

/// What may be drawn at some place; none: as much as there is.
struct ScopeLimits {
  std::optional<double> peak_w = {};  ///< at any time: what a breaker or a supply stands
  std::optional<double> mean_w = {};  ///< over an iteration: what cooling or a contract allows
};

struct PowerCap {
  ScopeLimits gpu = {};                      ///< each GPU
  ScopeLimits node = {};                     ///< each node's GPUs together
  ScopeLimits job = {};                      ///< all GPUs
  std::optional<double> phase_swing_w = {};  ///< `PlanPower::phase_swing_w`
};

/// How much of a cap a plan needs where it is tightest.
struct CapUse {
  std::string scope;  ///< `peak of a GPU of rank 3`, `mean of node 0`, `peak of the job`, ...; empty: nothing is capped
  double power_w = 0;
  double cap_w = 0;
  /// power / cap; the plan is within the cap when it is at most 1.
  double share = 0;

  [[nodiscard]] bool fits() const { return share <= 1; }
};

/// Throws InputError when a limit of the cap is not positive and finite (the swing may be 0).
[[nodiscard]] CapUse tightest(const PlanPower& power, const PowerCap& cap);

struct PoweredPlan {
  plan::Plan plan;
  PlanPower power;
};

/// The fastest of the plans within the cap; null when none is.
[[nodiscard]] const PoweredPlan* fastest_within(std::span<const PoweredPlan> plans, const PowerCap& cap);

/// Deadlines in which a plan is looked for.
struct DeadlineRange {
  double fastest_s = 0;
  double slowest_s = 0;
  double tolerance = 1e-4;  ///< relative: the deadline found is at most this much longer than it needs to be
};

using PlanForDeadline = std::function<PoweredPlan(double deadline_s)>;

/// What a search found: the fastest plan within the cap, and else the one that came nearest to it.
struct CapSearch {
  PoweredPlan plan;
  CapUse use;  ///< of `plan`
};

/// Looks through a range of deadlines: 64 of them, evenly spaced, from the fastest on until one fits, and then between
/// that and the one before it by bisection. Means fall with the deadline; peaks need not, so that a fitting plan in a
/// stretch narrower than that may be missed.
[[nodiscard]] CapSearch search_deadlines(const PlanForDeadline& plan_for, const DeadlineRange& range,
                                         const PowerCap& cap);

/// The rows of a profile in which a GPU draws at most `limit_w` on average over the op.
[[nodiscard]] profile::StageProfile within_gpu_power(const profile::StageProfile& profile, double limit_w);

/// A pipeline that runs under a cap.
struct CappedJob {
  schedule::Schedule schedule;
  profile::StageProfile profile;
  std::vector<double> blocking_power_w;  ///< by rank
  std::vector<GpuGroup> gpus;
  planner::PlannerOptions planner;
  double wanted_deadline_s = 0;  ///< no faster plan is wanted; 0: the fastest
  Progress* progress = nullptr;  ///< may be null
};

struct CappedPlan {
  std::optional<PoweredPlan> plan;  ///< none: no plan fits
  /// One sentence with the numbers: what the plan needs of the cap, or what the least needs and why none fits.
  std::string reason;
};

/// The fastest plan within the cap. A GPU's peak is kept by planning with the rows of the profile that keep it. Where
/// the frontier of that has no plan that keeps the rest, or a slower one than wanted, the same is tried with rows of
/// ever less power, 16 levels down to what every op can do with, which shave peaks and reach below the mean power of
/// the plan of least energy: with one clock per (stage, kind), and at the best level as `planner` says. Throws
/// InputError when the cap is invalid, there is not one blocking power for each rank, and what the planner and
/// `plan_power` throw.
[[nodiscard]] CappedPlan plan_within_cap(const CappedJob& job, const PowerCap& cap);

}  // namespace lowgear::adapt
