#include "planning/joint/bound/order_free_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "planning/joint/bound/price_search.h"
#include "planning/profile/options.h"

namespace lowgear::joint {
namespace {

/// Which path charges an op, and how often.
struct PathCharge {
  std::size_t path = 0;
  int weight = 1;
};

/// Alike ops of a group that are charged the same.
struct ChargedOps {
  std::size_t group = 0;
  int count = 0;
  std::vector<PathCharge> charges;
};

/// The weight with which a path has op m (from 1) of a group.
int weight_of(std::span<const WeightedOps> ops, int m) {
  for (const WeightedOps& some : ops) {
    if (m <= some.ops) return some.weight;
    m -= some.ops;
  }
  return 0;
}

/// Op m of a group is charged the m-th largest weight of each path; ops charged the same are one entry.
std::vector<ChargedOps> charged_ops(const OrderFreeProblem& problem) {
  std::vector<ChargedOps> result;
  for (std::size_t group = 0; group < problem.cost_of_group.size(); ++group) {
    std::vector<int> ends = {problem.ops_of_a_group};
    for (const UnavoidablePath& path : problem.paths) {
      int end = 0;
      for (const WeightedOps& some : path.ops[group]) ends.push_back(end += some.ops);
    }
    std::ranges::sort(ends);
    int begin = 0;
    for (const int end : ends) {
      if (end <= begin) continue;
      ChargedOps ops{.group = group, .count = end - begin, .charges = {}};
      for (std::size_t path = 0; path < problem.paths.size(); ++path) {
        const int weight = weight_of(problem.paths[path].ops[group], end);
        if (weight > 0) ops.charges.push_back({path, weight});
      }
      result.push_back(std::move(ops));
      begin = end;
    }
  }
  return result;
}

/// Least effective energy plus price times time, over the times of a cost.
EnergyZj least_cost_zj(const planner::ConvexCost& cost, PowerNw price_nw) {
  // While slowing down saves more than it is charged.
  const auto stop = std::ranges::lower_bound(cost.slope_nw, price_nw, std::greater{});
  const TimePs time_ps = cost.time_ps[static_cast<std::size_t>(stop - cost.slope_nw.begin())];
  return cost.energy_zj(time_ps) + (static_cast<EnergyZj>(price_nw) * time_ps);
}

/// The problem in units of the deadline, and of energies of order one.
class ScaledProblem {
 public:
  ScaledProblem(const OrderFreeProblem& problem, TimePs deadline_ps) : deadline_s_(s_from_ps(deadline_ps)) {
    for (const planner::ConvexCost& cost : problem.cost_of_group) {
      const EnergyZj range = cost.energy_at_fastest_zj - cost.energy_zj(cost.slowest_ps());
      energy_j_ += problem.ops_of_a_group * j_from_zj(range);
    }
    energy_j_ = std::max(energy_j_, w_from_nw(problem.blocking_power_nw) * deadline_s_);
    energy_j_ = std::max(energy_j_, 1e-9);
    for (const UnavoidablePath& path : problem.paths) parallel_.push_back(path.parallel);
    for (const ChargedOps& charged : charged_ops(problem)) add(problem, charged);
    add_waiting(problem);
  }

  [[nodiscard]] std::vector<PowerNw> best_prices() const {
    std::vector<PowerNw> price_nw;
    for (const double price : search_prices(ops_, parallel_.size())) {
      price_nw.push_back(nw_from_w(price * energy_j_ / deadline_s_ / parallel_[price_nw.size()]));
    }
    return price_nw;
  }

 private:
  void add(const OrderFreeProblem& problem, const ChargedOps& charged) {
    if (charged.charges.empty()) return;  // at its slowest whatever the prices are
    const planner::ConvexCost& cost = problem.cost_of_group[charged.group];
    PricedOp op{.time = {}, .energy = {}, .charges = {}, .count = static_cast<double>(charged.count)};
    for (const PathCharge& charge : charged.charges) {
      op.charges.push_back({charge.path, static_cast<double>(charge.weight) / parallel_[charge.path]});
    }
    for (const TimePs time_ps : cost.time_ps) {
      op.time.push_back(s_from_ps(time_ps) / deadline_s_);
      op.energy.push_back(j_from_zj(cost.energy_zj(time_ps) - cost.energy_at_fastest_zj) / energy_j_);
    }
    ops_.push_back(std::move(op));
  }

  /// An iteration may end before its deadline, which saves what all ranks draw while they wait: as if an op that takes
  /// up to the whole deadline could be left out.
  void add_waiting(const OrderFreeProblem& problem) {
    PricedOp early{.time = {0, 1}, .energy = {0, 0}, .charges = {}, .count = 1};
    early.energy[1] = -w_from_nw(problem.blocking_power_nw) * deadline_s_ / energy_j_;
    for (std::size_t path = 0; path < parallel_.size(); ++path) early.charges.push_back({path, 1});
    ops_.push_back(std::move(early));
  }

  double deadline_s_;
  double energy_j_ = 0;        ///< one unit
  std::vector<int> parallel_;  ///< by path; the search's prices are for all of them together
  std::vector<PricedOp> ops_;
};

}  // namespace

OrderFreeProblem order_free_problem(const OrderFreedom& freedom, const profile::StageProfile& of_stages,
                                    std::span<const double> blocking_power_w) {
  OrderFreeProblem problem;
  problem.ops_of_a_group = freedom.ops_of_a_group();
  problem.paths = unavoidable_paths(freedom);
  for (int rank = 0; rank < freedom.ranks(); ++rank) {
    const double blocking_w = blocking_power_w[static_cast<std::size_t>(rank)];
    problem.blocking_power_nw += nw_from_w(blocking_w);
    const auto first = std::ranges::find(freedom.rank_of_stage, rank);
    const int stage = static_cast<int>(first - freedom.rank_of_stage.begin());
    for (const OpKind kind : freedom.kinds()) {
      (void)of_stages.at_max_clock(stage, kind);  // says which rows are missing
      const auto options = profile::pareto_options(of_stages.measurements(stage, kind), blocking_w);
      problem.cost_of_group.push_back(planner::convex_cost(options));
    }
  }
  return problem;
}

TimePs least_time_ps(const OrderFreeProblem& problem) {
  TimePs longest_ps = 0;
  for (const UnavoidablePath& path : problem.paths) {
    TimePs time_ps = 0;
    for (std::size_t group = 0; group < path.ops.size(); ++group) {
      for (const WeightedOps& some : path.ops[group]) {
        time_ps += static_cast<TimePs>(some.ops) * some.weight * problem.cost_of_group[group].fastest_ps();
      }
    }
    longest_ps = std::max(longest_ps, (time_ps + path.parallel - 1) / path.parallel);
  }
  return longest_ps;
}

planner::BoundLine bound_of_prices(const OrderFreeProblem& problem, std::span<const PowerNw> price_nw) {
  planner::BoundLine line;
  for (std::size_t path = 0; path < price_nw.size(); ++path) {
    line.slope_nw += price_nw[path] * problem.paths[path].parallel;
  }
  for (const ChargedOps& charged : charged_ops(problem)) {
    PowerNw price = 0;
    for (const PathCharge& charge : charged.charges) price += price_nw[charge.path] * charge.weight;
    line.intercept_zj += charged.count * least_cost_zj(problem.cost_of_group[charged.group], price);
  }
  return line;
}

std::vector<PowerNw> best_prices(const OrderFreeProblem& problem, TimePs deadline_ps) {
  return ScaledProblem(problem, deadline_ps).best_prices();
}

double lower_bound_j(const planner::BoundLine& line, PowerNw blocking_power_nw, TimePs deadline_ps) {
  // A line flatter than the blocking power is least where the iteration takes no time.
  const TimePs time_ps = line.slope_nw >= blocking_power_nw ? deadline_ps : 0;
  const EnergyZj per_ps = static_cast<EnergyZj>(blocking_power_nw) - line.slope_nw;
  return j_from_zj(line.intercept_zj + (per_ps * time_ps));
}

}  // namespace lowgear::joint
