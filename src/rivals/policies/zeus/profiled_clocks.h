#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planning/planner/policies/policy.h"
#include "planning/simulator/replay.h"

namespace lowgear::policies {

/// The clocks, highest first, at which everything that `stage` runs in the graph was profiled. Throws InputError when
/// there is none.
[[nodiscard]] std::vector<int> stage_clocks_mhz(const planner::PlanningProblem& problem, int stage);

/// The clocks, highest first, at which everything of all stages was profiled. Throws InputError when there is none.
[[nodiscard]] std::vector<int> common_clocks_mhz(const planner::PlanningProblem& problem);

/// Picks among whole-iteration candidates, given one by one, the one of least replayed energy that keeps a deadline.
class CheapestInTime {
 public:
  /// Without a deadline: within the iteration time at the highest clocks, or the fastest candidate if none is.
  CheapestInTime(const planner::PlanningProblem& problem, std::optional<double> deadline_s);

  void consider(std::vector<int> clocks_mhz);
  /// Throws InputError with the policy's name and the shortest time there is when no candidate kept the deadline.
  [[nodiscard]] const std::vector<int>& clocks_mhz(std::string_view policy) const;

 private:
  const planner::PlanningProblem* problem_;
  simulator::TimingGraph graph_;
  bool must_meet_;
  double limit_s_;
  double shortest_time_s_;
  double least_energy_j_;
  std::vector<int> fastest_clocks_mhz_;
  std::vector<int> cheapest_clocks_mhz_;
};

}  // namespace lowgear::policies
