#pragma once

#include <optional>
#include <string>
#include <variant>

#include "server/job/plan_version.h"

namespace lowgear::server {

/// Time from a failed profile to the next attempt.
inline constexpr double kProfileRetryS = 3'600;

/// The ranks follow this plan, which the server makes without a planner.
struct IssuePlan {
  PlanVersion plan;
};
/// The job trains at full clocks and follows no plans, until the retry.
struct Observe {
  std::string reason;
  std::optional<double> retry_after_s;  ///< empty: no retry
};
/// The job measures iterations at full clocks.
struct MeasureBaseline {};
/// The job measures another profile.
struct MeasureProfile {};
/// A planner judges the job's own profile.
struct JudgeProfile {};
/// The job's own profile is good enough: it is stored, and a plan is made from it.
struct PlanByProfile {};
/// No plan is made from the profile, as its figures are wrong.
struct RefuseProfile {
  std::string reason;
};
/// The conditions of planning have changed.
struct Replan {
  std::string reason;
};
/// The guard ends the plan.
struct FullClocks {
  std::string reason;
};
/// The last iterations, all at full clocks, contradict the baseline and replace it.
struct RenewBaseline {
  int iterations = 0;
};

/// The next step that a state asks for; `JobTransitions` carries it out. None: the job stays as it is.
using JobStep = std::variant<std::monostate, IssuePlan, Observe, MeasureBaseline, MeasureProfile, JudgeProfile,
                             PlanByProfile, RefuseProfile, Replan, FullClocks, RenewBaseline>;

}  // namespace lowgear::server
