#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/api/power/plan_power.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::api {

/// The scope of a power cap's watts: each GPU, each node's GPUs together, or all GPUs of the job.
enum class CapScope : unsigned char { gpu, node, job };
/// `gpu`, `node`, `job`.
[[nodiscard]] std::string_view name(CapScope scope);
/// Empty when there is no such scope.
[[nodiscard]] std::optional<CapScope> cap_scope(std::string_view name);

/// The most power that a job may draw. A limit that is empty is none.
struct PowerCap {
  CapScope scope = CapScope::gpu;
  std::optional<double> watts = {};    ///< at any time: the limit of a breaker or a supply
  std::optional<double> swing_w = {};  ///< `PlanPower::phase_swing_w`
  friend bool operator==(const PowerCap&, const PowerCap&) = default;
};

/// In words: `300 W a GPU at most`; `no power cap`.
[[nodiscard]] std::string describe(const std::optional<PowerCap>& cap);

/// The cap of a part of the job's replicas: nodes and the job are shared, a GPU is not. `share` is in (0, 1].
[[nodiscard]] PowerCap share_of(PowerCap cap, double share);

/// How much of a cap a plan needs where it is tightest.
struct CapUse {
  std::string scope;  ///< `peak of a GPU of rank 3`, `peak of node 0`, `peak of the job`, ...; empty: nothing is capped
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

/// Deadlines in which a plan is looked for.
struct DeadlineRange {
  double fastest_s = 0;
  double slowest_s = 0;
};

using PlanForDeadline = std::function<PoweredPlan(double deadline_s)>;

/// The result of a search: the fastest plan within the cap, and else the one that came nearest to it.
struct CapSearch {
  PoweredPlan plan;
  CapUse use;  ///< of `plan`
};

/// Looks through a range of deadlines: 64 of them, evenly spaced, from the fastest on until one fits, and then between
/// that and the one before it by bisection. Peaks need not fall with the deadline, so that a fitting plan in a stretch
/// narrower than that may be missed.
[[nodiscard]] CapSearch search_deadlines(const PlanForDeadline& plan_for, const DeadlineRange& range,
                                         const PowerCap& cap);

/// The rows of a profile in which a GPU draws at most `limit_w` on average over the op.
[[nodiscard]] profile::StageProfile within_gpu_power(const profile::StageProfile& profile, double limit_w);

/// The input of a plan under a cap.
struct CapConditions {
  std::vector<GpuGroup> gpus;  ///< that run the pipeline's replicas
  planner::PlannerOptions planner = {};
  /// Of plans that end by then, the one of least energy is wanted, though it may end earlier; 0: the fastest plan.
  double wanted_deadline_s = 0;
};

struct CappedPlan {
  std::optional<PoweredPlan> plan;  ///< none: no plan fits
  /// One sentence with the numbers: the power that the plan needs under the cap, or the least power of any plan and why
  /// none fits.
  std::string reason;
};

/// The fastest plan of a pipeline that is found within the cap: never slower than the best clock for all ops together,
/// or than wanted, whichever is slower. A GPU's peak is kept by planning with the rows of the profile that keep it.
/// Where the frontier of that has no plan that keeps the rest, or a slower one than wanted, common clocks are tried,
/// rows of an equal share of the cap, and rows of ever less power, 16 levels down to the least that every op can run
/// with, which shave peaks and reach below the power of the plan of least energy: with one clock per (stage, kind), and
/// at the best level, or up to the best common clock, as `planner` says. Clock changes that take effect late are not
/// seen in a plan's power. Throws InputError when the cap is invalid, there is not one blocking power for each rank,
/// and what the planner and `plan_power` throw.
[[nodiscard]] CappedPlan plan_within_cap(const planner::PlanningProblem& problem, const CapConditions& conditions,
                                         const PowerCap& cap);

}  // namespace lowgear::api
