#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {

/// The clocks, highest first, at which everything that `stage` runs in the graph was profiled. Throws InputError when
/// there is none.
[[nodiscard]] std::vector<int> stage_clocks_mhz(const PlanningProblem& problem, int stage);

/// The clocks, highest first, at which everything of all stages was profiled. Throws InputError when there is none.
[[nodiscard]] std::vector<int> common_clocks_mhz(const PlanningProblem& problem);

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

/// Picks among whole-iteration candidates, given one by one, the one of least replayed energy that keeps a deadline.
class CheapestInTime {
 public:
  /// Without a deadline: within the iteration time at the highest clocks, or the fastest candidate if none is.
  CheapestInTime(const PlanningProblem& problem, std::optional<double> deadline_s);

  void consider(std::vector<int> clocks_mhz);
  /// Throws InputError with the policy's name and the shortest time there is when no candidate kept the deadline.
  [[nodiscard]] const std::vector<int>& clocks_mhz(std::string_view policy) const;

 private:
  const PlanningProblem* problem_;
  simulator::TimingGraph graph_;
  bool must_meet_;
  double limit_s_;
  double shortest_time_s_;
  double least_energy_j_;
  std::vector<int> fastest_clocks_mhz_;
  std::vector<int> cheapest_clocks_mhz_;
};

}  // namespace lowgear::planner
