#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planning/planner/frontier/instance.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// A clock, with a setting, that an op may be planned at, in the solver's integers.
struct ClockChoice {
  int clock_mhz = 0;
  TimePs time_ps = 0;
  EnergyZj effective_energy_zj = 0;
  std::string setting = {};
};

/// A pipeline as both halves of the planner see it: convex costs for the frontier, and the clocks that exist for plans.
struct PlanningModel {
  ProblemInstance instance;
  /// By cost of the instance: the Pareto options on effective energy, fastest first. The cost is their convex hull.
  std::vector<std::vector<ClockChoice>> choices;
  std::vector<std::int32_t> rank_of_op;  ///< ops of a rank follow each other in their order of execution

  [[nodiscard]] const std::vector<ClockChoice>& choices_of(int op) const {
    return choices[static_cast<std::size_t>(instance.cost_of_op[static_cast<std::size_t>(op)])];
  }
};

/// One cost per (virtual stage, kind), on effective energy with the blocking power of the rank that runs the stage.
/// `blocking_power_w` by rank. Throws InputError when the profile lacks a (stage, kind) of the graph.
[[nodiscard]] PlanningModel make_planning_model(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                                std::span<const double> blocking_power_w);

/// An op, a stage or a clock by its number, as an index of a container.
[[nodiscard]] constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace lowgear::planner
