#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/schedule/dag.h"
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

/// Finds a critical path of a pipeline again and again as op times change. Where it branches, the op that a
/// breadth-first walk from the start meets first is taken, an op's successor on its own rank before those on others.
/// (Perseus' artifact has this order; other ones lead its EnvPipe to slightly different plans.)
class CriticalPathFinder {
 public:
  /// `dag` must outlive the finder.
  explicit CriticalPathFinder(const schedule::PipelineDag& dag);

  /// Ops of the path, in order. `units` is the time of every op, in any unit, at least 1.
  [[nodiscard]] std::vector<int> find(std::span<const int> units);

 private:
  void order_successors();
  std::int64_t measure(std::span<const int> units);
  [[nodiscard]] int first_critical(std::span<const int> ops, std::int64_t start, std::int64_t makespan) const;

  const schedule::PipelineDag* dag_;
  std::vector<int> first_ops_;                ///< ops that wait for nothing
  std::vector<std::vector<int>> successors_;  ///< by op, in the order in which they are preferred
  std::vector<std::int64_t> start_;           ///< by op: earliest start
  std::vector<std::int64_t> to_end_;          ///< by op: longest way from its start to the end
};

}  // namespace lowgear::planner
