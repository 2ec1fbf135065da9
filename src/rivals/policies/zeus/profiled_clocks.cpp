#include "rivals/policies/zeus/profiled_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "planning/planner/policies/clock_choice.h"

namespace lowgear::policies {

namespace {

/// Deadlines come from sums of the same times in another order.
constexpr double kRoundingTolerance = 1e-9;

std::array<bool, kOpKindCount> kinds_of_stage(const schedule::PipelineDag& dag, int stage) {
  std::array<bool, kOpKindCount> present{};
  for (const schedule::ComputeOp& op : dag.ops) {
    if (op.stage == stage) present[static_cast<std::size_t>(op.kind)] = true;
  }
  return present;
}

void keep_common(std::vector<int>& clocks_mhz, std::span<const int> others_mhz) {
  std::erase_if(clocks_mhz, [&](int clock) { return std::ranges::find(others_mhz, clock) == others_mhz.end(); });
}

}  // namespace

std::vector<int> stage_clocks_mhz(const planner::PlanningProblem& problem, int stage) {
  const auto present = kinds_of_stage(*problem.dag, stage);
  std::vector<int> common;
  bool first = true;
  for (const OpKind kind : kScheduledKinds) {
    if (!present[static_cast<std::size_t>(kind)]) continue;
    std::vector<int> clocks;
    for (const profile::Measurement& measurement : problem.profile->measurements(stage, kind)) {
      if (clocks.empty() || clocks.back() != measurement.clock_mhz) clocks.push_back(measurement.clock_mhz);
    }
    if (first) {
      common = std::move(clocks);
    } else {
      keep_common(common, clocks);
    }
    first = false;
  }
  if (common.empty()) {
    throw InputError(
        fmt::format("stage {} has no clock at which all of its ops were profiled; profile its forward and "
                    "backward at the same clocks",
                    stage));
  }
  return common;
}

std::vector<int> common_clocks_mhz(const planner::PlanningProblem& problem) {
  std::vector<int> common = stage_clocks_mhz(problem, 0);
  for (int stage = 1; stage < problem.dag->stages; ++stage) keep_common(common, stage_clocks_mhz(problem, stage));
  if (common.empty()) {
    throw InputError("there is no clock at which all stages were profiled; profile them at the same ones");
  }
  return common;
}

CheapestInTime::CheapestInTime(const planner::PlanningProblem& problem, std::optional<double> deadline_s)
    : problem_(&problem),
      graph_(*problem.dag),
      must_meet_(deadline_s.has_value()),
      limit_s_(deadline_s ? *deadline_s : replay_clocks(problem, max_clocks_mhz(problem)).time_s),
      shortest_time_s_(std::numeric_limits<double>::infinity()),
      least_energy_j_(std::numeric_limits<double>::infinity()) {}

void CheapestInTime::consider(std::vector<int> clocks_mhz) {
  const auto costs = simulator::costs_at_clocks(*problem_->dag, *problem_->profile, clocks_mhz);
  const simulator::Timeline timeline = replay(*problem_->dag, graph_, costs, problem_->blocking_power_w);
  if (timeline.time_s < shortest_time_s_) {
    shortest_time_s_ = timeline.time_s;
    fastest_clocks_mhz_ = clocks_mhz;
  }
  const bool in_time = timeline.time_s <= limit_s_ * (1 + kRoundingTolerance);
  if (in_time && timeline.energy_j_total < least_energy_j_) {
    least_energy_j_ = timeline.energy_j_total;
    cheapest_clocks_mhz_ = std::move(clocks_mhz);
  }
}

const std::vector<int>& CheapestInTime::clocks_mhz(std::string_view policy) const {
  if (!cheapest_clocks_mhz_.empty()) return cheapest_clocks_mhz_;
  if (must_meet_) {
    throw InputError(
        fmt::format("{}: no plan takes {} s or less; its fastest takes {} s", policy, limit_s_, shortest_time_s_));
  }
  return fastest_clocks_mhz_;
}

}  // namespace lowgear::policies
