#include "planning/planner/planners/shared_clock_planner.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {
namespace {

/// Exchanges are tried while groups^2 x ops stays below this: some tens of milliseconds.
constexpr double kMaxExchangeVisits = 5e6;

constexpr int kBisections = 24;

}  // namespace

ClockGroups groups_by_stage_and_kind(const PlanningModel& model) {
  // The model has one cost for each of them.
  return {{model.instance.cost_of_op.begin(), model.instance.cost_of_op.end()},
          static_cast<std::int32_t>(model.instance.costs.size())};
}

ClockGroups groups_by_rank(const schedule::PipelineDag& dag) {
  ClockGroups groups;
  groups.count = dag.ranks;
  groups.group_of_op.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) groups.group_of_op.push_back(op.rank);
  return groups;
}

SharedClockPlanner::SharedClockPlanner(const PlanningModel& model, ClockGroups groups, WorkReport* work)
    : model_(&model), rounder_(model, work), groups_(at(groups.count)) {
  for (std::size_t op = 0; op < groups.group_of_op.size(); ++op) {
    groups_[at(groups.group_of_op[op])].ops.push_back(static_cast<std::int32_t>(op));
  }
  for (Group& group : groups_) collect_steps(group);
}

void SharedClockPlanner::collect_steps(Group& group) {
  std::map<std::int32_t, std::size_t> ops_of_cost;
  for (const std::int32_t op : group.ops) ++ops_of_cost[model_->instance.cost_of_op[at(op)]];
  std::map<std::pair<int, std::string_view>, Step, std::greater<>> steps;
  for (const auto& [cost, count] : ops_of_cost) {
    const std::vector<ClockChoice>& choices = model_->choices[at(cost)];
    for (std::size_t k = 0; k < choices.size(); ++k) {
      Step& step = steps[{choices[k].clock_mhz, choices[k].setting}];
      step.clock_mhz = choices[k].clock_mhz;
      step.choice_of_cost.resize(model_->choices.size(), -1);
      step.choice_of_cost[at(cost)] = static_cast<std::int32_t>(k);
      step.effective_energy_j += static_cast<double>(count) * j_from_zj(choices[k].effective_energy_zj);
      step.time_s += static_cast<double>(count) * s_from_ps(choices[k].time_ps);
    }
  }
  const auto is_for_all = [&ops_of_cost](const Step& step) {
    return std::ranges::all_of(ops_of_cost,
                               [&step](const auto& entry) { return step.choice_of_cost[at(entry.first)] >= 0; });
  };
  std::vector<Step> candidates;
  for (auto& [option, step] : steps) {
    if (is_for_all(step)) candidates.push_back(std::move(step));
  }
  // By time, not by clock: measured times may rise with the clock.
  std::ranges::stable_sort(candidates, [](const Step& a, const Step& b) {
    return std::tie(a.time_s, a.effective_energy_j) < std::tie(b.time_s, b.effective_energy_j);
  });
  for (Step& step : candidates) {
    const bool saves = group.steps.empty() || step.effective_energy_j < group.steps.back().effective_energy_j;
    if (saves) group.steps.push_back(std::move(step));
  }
}

std::optional<DiscretePlan> SharedClockPlanner::plan(const ContinuousPlan& continuous) {
  for (const Group& group : groups_) {
    if (group.steps.empty()) return std::nullopt;
  }
  if (!keeps(Position(groups_.size(), 0), continuous.deadline_ps)) return std::nullopt;
  Position best = improved(start_by_price(continuous), continuous.deadline_ps);
  Position even = improved(start_evenly(continuous.deadline_ps), continuous.deadline_ps);
  if (energy_j(even) < energy_j(best)) best = std::move(even);
  DiscretePlan plan;
  plan.choice = choices(best);
  plan.makespan_ps = rounder_.makespan_ps(plan.choice);
  for (int op = 0; op < model_->instance.op_count(); ++op) {
    plan.effective_energy_zj +=
        model_->choices_of(op)[at(plan.choice[static_cast<std::size_t>(op)])].effective_energy_zj;
  }
  return plan;
}

SharedClockPlanner::Position SharedClockPlanner::improved(Position position, TimePs deadline_ps) {
  slow_down(position, deadline_ps);
  const auto groups = static_cast<double>(groups_.size());
  if (groups * groups * static_cast<double>(model_->instance.op_count()) <= kMaxExchangeVisits) {
    exchange(position, deadline_ps);
  }
  return position;
}

/// Price of the time of a group's ops in the continuous optimum, in watts per op; a little everywhere, so that a
/// high enough multiple makes every group take its fastest clock.
std::vector<double> SharedClockPlanner::group_prices(const ContinuousPlan& continuous) const {
  std::vector<double> prices;
  double sum_w = 0;
  for (const Group& group : groups_) {
    double group_sum_w = 0;
    for (const std::int32_t op : group.ops) group_sum_w += w_from_nw(continuous.op_flow_nw[at(op)]);
    prices.push_back(group_sum_w / static_cast<double>(group.ops.size()));
    sum_w += prices.back();
  }
  const double little_w = std::max(sum_w / static_cast<double>(groups_.size()) / 100, 1e-3);
  for (double& price_w : prices) price_w += little_w;
  return prices;
}

/// The least multiple of the prices at which the groups' cheapest clocks keep the deadline.
SharedClockPlanner::Position SharedClockPlanner::start_by_price(const ContinuousPlan& continuous) {
  const std::vector<double> prices_w = group_prices(continuous);
  const auto cheapest_at = [&](double multiple) {
    Position position;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      double least_j = std::numeric_limits<double>::infinity();
      std::size_t best = 0;
      for (std::size_t k = 0; k < group.steps.size(); ++k) {
        const double value_j = group.steps[k].effective_energy_j + multiple * prices_w[g] * group.steps[k].time_s;
        if (value_j < least_j) {
          least_j = value_j;
          best = k;
        }
      }
      position.push_back(best);
    }
    return position;
  };
  constexpr double kHighestMultiple = 64;
  return slowest_start(cheapest_at, kHighestMultiple, 0, continuous.deadline_ps);
}

/// One clock for each rank, with which it takes at most the time of the slowest at its fastest clocks, times a factor.
SharedClockPlanner::Position SharedClockPlanner::start_evenly(TimePs deadline_ps) {
  std::map<std::int32_t, std::vector<std::size_t>> groups_of_rank;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_of_rank[model_->rank_of_op[at(groups_[g].ops.front())]].push_back(g);
  }
  const auto time_s = [this](const std::vector<std::size_t>& of_rank, const Position& position) {
    double sum_s = 0;
    for (const std::size_t g : of_rank) sum_s += groups_[g].steps[position[g]].time_s;
    return sum_s;
  };
  const Position fastest(groups_.size(), 0);
  double slowest_rank_s = 0;
  for (const auto& [rank, of_rank] : groups_of_rank)
    slowest_rank_s = std::max(slowest_rank_s, time_s(of_rank, fastest));
  const auto as_slow_as = [&](double factor) {
    Position position = fastest;
    for (const auto& [rank, of_rank] : groups_of_rank) {
      std::set<int, std::greater<>> clocks_mhz;
      for (const std::size_t g : of_rank) {
        for (const Step& step : groups_[g].steps) clocks_mhz.insert(step.clock_mhz);
      }
      Position slower = position;
      for (const int clock_mhz : clocks_mhz) {
        for (const std::size_t g : of_rank) slower[g] = groups_[g].step_at(clock_mhz);
        if (time_s(of_rank, slower) <= factor * slowest_rank_s) position = slower;
      }
    }
    return position;
  };
  constexpr double kSlowestFactor = 16;
  return slowest_start(as_slow_as, 1, kSlowestFactor, deadline_ps);
}

/// The last of the positions between those at `fast` and `slow` that keeps the deadline, by bisection.
template <typename PositionAt>
SharedClockPlanner::Position SharedClockPlanner::slowest_start(const PositionAt& position_at, double fast, double slow,
                                                               TimePs deadline_ps) {
  Position best(groups_.size(), 0);
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (fast + slow) / 2;
    Position position = position_at(middle);
    if (keeps(position, deadline_ps)) {
      best = std::move(position);
      fast = middle;
    } else {
      slow = middle;
    }
  }
  return best;
}

std::vector<std::int32_t> SharedClockPlanner::choices(const Position& position) const {
  std::vector<std::int32_t> choice(static_cast<std::size_t>(model_->instance.op_count()));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Step& step = groups_[g].steps[position[g]];
    for (const std::int32_t op : groups_[g].ops) {
      choice[at(op)] = step.choice_of_cost[at(model_->instance.cost_of_op[at(op)])];
    }
  }
  return choice;
}

bool SharedClockPlanner::keeps(const Position& position, TimePs deadline_ps) {
  return rounder_.makespan_ps(choices(position)) <= deadline_ps;
}

double SharedClockPlanner::energy_j(const Position& position) const {
  double energy_j = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) energy_j += groups_[g].steps[position[g]].effective_energy_j;
  return energy_j;
}

/// Slows groups down, one step at a time and in turn, while the deadline holds.
void SharedClockPlanner::slow_down(Position& position, TimePs deadline_ps) {
  std::vector<bool> stuck(groups_.size(), false);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (stuck[g]) continue;
      const bool at_end = position[g] + 1 == groups_[g].steps.size();
      if (!at_end) ++position[g];
      if (at_end || !keeps(position, deadline_ps)) {
        if (!at_end) --position[g];
        stuck[g] = true;  // others only get slower from here on
        continue;
      }
      moved = true;
    }
  }
}

/// Speeds one group up by a step and hands the time to the others, as long as that saves energy.
void SharedClockPlanner::exchange(Position& position, TimePs deadline_ps) {
  bool improved = true;
  while (improved) {
    improved = false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (position[g] == 0) continue;
      Position other = position;
      --other[g];
      for (std::size_t h = 0; h < groups_.size(); ++h) {
        while (h != g && other[h] + 1 < groups_[h].steps.size()) {
          ++other[h];
          if (keeps(other, deadline_ps)) continue;
          --other[h];
          break;
        }
      }
      if (energy_j(other) < energy_j(position) - 1e-9) {
        position = std::move(other);
        improved = true;
      }
    }
  }
}

}  // namespace lowgear::planner
