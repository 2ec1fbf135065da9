#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/simulator/cluster.h"
#include "planning/simulator/replay.h"

namespace lowgear::workflow {

/// How late clock changes take effect where nothing says it: what an A100 takes. Plans are then made as if changes came
/// at once, and replayed with this, too.
inline constexpr double kAssumedSwitchLatencyS = 0.025;

/// What a replay supposes beyond the profile.
struct ReplayConditions {
  double switch_latency_s = 0;
  std::vector<simulator::StageSlowdown> slowdowns;
};

/// One iteration with the given clocks and settings. Throws what `costs_at_clocks`, `costs_with_switch_latency` and
/// `apply_slowdowns` throw.
[[nodiscard]] simulator::Timeline replay_under(const planner::PlanningProblem& problem,
                                               const plan::OpChoicesView& choices, const ReplayConditions& conditions);

/// Of the whole pipeline.
[[nodiscard]] inline simulator::PipelineFigures figures_of(const simulator::Timeline& timeline) {
  return {timeline.time_s, timeline.energy_j_total};
}

/// Why a plan of this time is in doubt: it is faster than all clocks at their highest in the same order, by more than
/// noise (0.3 %). Empty where it is not.
[[nodiscard]] std::optional<std::string> faster_than_full_clocks(double plan_s, double full_clocks_s);

/// The schedule that a plan follows, read off its ops.
[[nodiscard]] schedule::Schedule schedule_of(const plan::Plan& plan);

}  // namespace lowgear::workflow
