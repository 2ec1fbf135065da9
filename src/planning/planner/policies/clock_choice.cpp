#include "planning/planner/policies/clock_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <queue>
#include <utility>

#include "base/core/error.h"

namespace lowgear::planner {

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

std::vector<int> stage_clocks_mhz(const PlanningProblem& problem, int stage) {
  const auto present = kinds_of_stage(*problem.dag, stage);
  std::vector<int> common;
  bool first = true;
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    if (!present[static_cast<std::size_t>(kind)]) continue;
    std::vector<int> clocks;
    for (const profile::Measurement& measurement : problem.profile->measurements(stage, static_cast<OpKind>(kind))) {
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

std::vector<int> common_clocks_mhz(const PlanningProblem& problem) {
  std::vector<int> common = stage_clocks_mhz(problem, 0);
  for (int stage = 1; stage < problem.dag->stages; ++stage) keep_common(common, stage_clocks_mhz(problem, stage));
  if (common.empty()) {
    throw InputError("there is no clock at which all stages were profiled; profile them at the same ones");
  }
  return common;
}

std::vector<int> max_clocks_mhz(const PlanningProblem& problem) {
  std::vector<int> clocks;
  clocks.reserve(problem.dag->ops.size());
  for (const schedule::ComputeOp& op : problem.dag->ops) {
    clocks.push_back(problem.profile->at_max_clock(op.stage, op.kind).clock_mhz);
  }
  return clocks;
}

plan::OpChoices fastest_settings(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                 std::vector<int> clocks_mhz) {
  plan::OpChoices choices{std::move(clocks_mhz), {}};
  if (!profile.has_settings()) return choices;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    choices.settings.push_back(profile.at_clock(dag.ops[op].stage, dag.ops[op].kind, choices.clocks_mhz[op]).setting);
  }
  return choices;
}

simulator::Timeline replay_clocks(const PlanningProblem& problem, std::span<const int> clocks_mhz) {
  return simulator::replay(*problem.dag, simulator::costs_at_clocks(*problem.dag, *problem.profile, clocks_mhz),
                           problem.blocking_power_w);
}

plan::Plan plan_of_replay(std::string policy, const PlanningProblem& problem, const simulator::Timeline& timeline,
                          const plan::OpChoicesView& choices) {
  plan::Plan plan;
  plan.policy = std::move(policy);
  plan.schedule = problem.schedule->name;
  plan.microbatches = problem.dag->microbatches;
  plan.deadline_s = timeline.time_s;
  plan.time_s = timeline.time_s;
  plan.energy_j = timeline.energy_j_total;
  plan.ranks = planned_ops(*problem.dag, timeline, choices);
  plan.switches = count_switches(plan.ranks);
  return plan;
}

CheapestInTime::CheapestInTime(const PlanningProblem& problem, std::optional<double> deadline_s)
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

CriticalPathFinder::CriticalPathFinder(const schedule::PipelineDag& dag)
    : dag_(&dag), successors_(dag.ops.size()), start_(dag.ops.size()), to_end_(dag.ops.size()) {
  std::vector<bool> waits(dag.ops.size(), false);
  for (const schedule::DagEdge& edge : dag.edges) {
    successors_[static_cast<std::size_t>(edge.from)].push_back(edge.to);
    waits[static_cast<std::size_t>(edge.to)] = true;
  }
  for (const int op : dag.topological_order) {
    if (!waits[static_cast<std::size_t>(op)]) first_ops_.push_back(op);
  }
  order_successors();
}

std::vector<int> CriticalPathFinder::find(std::span<const int> units) {
  const std::int64_t makespan = measure(units);
  std::vector<int> path;
  int op = first_critical(first_ops_, 0, makespan);
  while (op >= 0) {
    path.push_back(op);
    const auto index = static_cast<std::size_t>(op);
    op = first_critical(successors_[index], start_[index] + units[index], makespan);
  }
  return path;
}

void CriticalPathFinder::order_successors() {
  const auto rank = [this](int op) { return dag_->ops[static_cast<std::size_t>(op)].rank; };
  constexpr auto kNotMet = static_cast<std::size_t>(-1);
  std::vector<std::size_t> place(successors_.size(), kNotMet);
  std::size_t met = 0;
  std::queue<int> queue;
  const auto meet = [&](int op) {
    if (place[static_cast<std::size_t>(op)] != kNotMet) return;
    place[static_cast<std::size_t>(op)] = met++;
    queue.push(op);
  };
  for (const int op : first_ops_) meet(op);
  for (; !queue.empty(); queue.pop()) {
    const int op = queue.front();
    std::vector<int>& next_ops = successors_[static_cast<std::size_t>(op)];
    std::stable_partition(next_ops.begin(), next_ops.end(), [&](int next) { return rank(next) == rank(op); });
    for (const int next : next_ops) meet(next);
  }
  for (std::vector<int>& next_ops : successors_) {
    std::ranges::sort(next_ops, {}, [&](int next) { return place[static_cast<std::size_t>(next)]; });
  }
}

/// Fills start_ and to_end_; returns the makespan.
std::int64_t CriticalPathFinder::measure(std::span<const int> units) {
  std::ranges::fill(start_, 0);
  for (const int op : dag_->topological_order) {
    const auto index = static_cast<std::size_t>(op);
    for (const int next : successors_[index]) {
      std::int64_t& start = start_[static_cast<std::size_t>(next)];
      start = std::max(start, start_[index] + units[index]);
    }
  }
  std::int64_t makespan = 0;
  for (std::size_t i = dag_->topological_order.size(); i-- > 0;) {
    const auto index = static_cast<std::size_t>(dag_->topological_order[i]);
    std::int64_t after = 0;
    for (const int next : successors_[index]) after = std::max(after, to_end_[static_cast<std::size_t>(next)]);
    to_end_[index] = after + units[index];
    makespan = std::max(makespan, to_end_[index]);
  }
  return makespan;
}

/// The first of `ops` that starts at `start` and has no slack; -1 when there is none.
int CriticalPathFinder::first_critical(std::span<const int> ops, std::int64_t start, std::int64_t makespan) const {
  for (const int op : ops) {
    const auto index = static_cast<std::size_t>(op);
    if (start_[index] == start && start_[index] + to_end_[index] == makespan) return op;
  }
  return -1;
}

}  // namespace lowgear::planner
