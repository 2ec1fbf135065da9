#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {

/// Every op at the highest clock that it was profiled at.
[[nodiscard]] std::vector<int> max_clocks_mhz(const PlanningProblem& problem);

/// The clocks with the setting of each that a replay of clocks alone supposes, its fastest; without settings where the
/// profile has none. Throws InputError when the profile lacks a clock.
[[nodiscard]] plan::OpChoices fastest_settings(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                               std::vector<int> clocks_mhz);

/// The replay of `clocks_mhz` (by op) on the problem's profile.
[[nodiscard]] simulator::Timeline replay_clocks(const PlanningProblem& problem, std::span<const int> clocks_mhz);

/// A replay of `choices` as a plan whose deadline is its own time.
[[nodiscard]] plan::Plan plan_of_replay(std::string policy, const PlanningProblem& problem,
                                        const simulator::Timeline& timeline, const plan::OpChoicesView& choices);

}  // namespace lowgear::planner
