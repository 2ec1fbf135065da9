#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/simulator/replay.h"
#include "report/report/report_data.h"

namespace lowgear {

/// What a replay supposes beyond the profile.
struct ReplayConditions {
  double switch_latency_s = 0;
  std::vector<StageSlowdown> slowdowns;
};

/// One iteration with the given clocks (by op). Throws what `costs_at_clocks`, `costs_with_switch_latency` and
/// `apply_slowdowns` throw.
[[nodiscard]] Timeline replay_under(const PlanningProblem& problem, std::span<const int> clocks_mhz,
                                    const ReplayConditions& conditions);

/// A replay with its clocks as the report and traces show it.
[[nodiscard]] ReportTimeline report_timeline(std::string label, const PipelineDag& dag, const Timeline& timeline,
                                             std::span<const int> clocks_mhz);

/// The schedule that a plan follows, read off its ops.
[[nodiscard]] Schedule schedule_of(const Plan& plan);

}  // namespace lowgear
