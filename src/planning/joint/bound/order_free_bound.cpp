#include "planning/joint/bound/order_free_bound.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "planning/joint/bound/price_search.h"
#include "planning/joint/bound/unavoidable_paths.h"
#include "planning/joint/orders/candidate_orders.h"
#include "planning/profile/options.h"
#include "planning/schedule/list_schedule.h"

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

  [[nodiscard]] std::vector<PowerNw> best_prices(planner::WorkReport* work) const {
    std::vector<PowerNw> price_nw;
    for (const double price : search_prices(ops_, parallel_.size(), work)) {
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

std::vector<PowerNw> best_prices(const OrderFreeProblem& problem, TimePs deadline_ps, planner::WorkReport* work) {
  return ScaledProblem(problem, deadline_ps).best_prices(work);
}

double lower_bound_j(const planner::BoundLine& line, PowerNw blocking_power_nw, TimePs deadline_ps) {
  // A line flatter than the blocking power is least where the iteration takes no time.
  const TimePs time_ps = line.slope_nw >= blocking_power_nw ? deadline_ps : 0;
  const EnergyZj per_ps = static_cast<EnergyZj>(blocking_power_nw) - line.slope_nw;
  return j_from_zj(line.intercept_zj + (per_ps * time_ps));
}

namespace {

using nlohmann::json;

/// Prices grow without limit towards the least time, where nothing can be slowed down: so far from it, as a share of
/// it, they are chosen at least. Their line holds at every time.
constexpr double kLeastRoom = 1e-4;

OrderFreedom freedom_of(const JointProblem& problem, const schedule::StageLayout& layout, bool splits_backward) {
  OrderFreedom freedom{.rank_of_stage = {},
                       .most_activations = {},
                       .microbatches = problem.microbatches,
                       .splits_backward = splits_backward};
  const auto stages_of_a_rank = static_cast<int>(layout.front().size());
  freedom.most_activations = most_activations(problem.memory, problem.ranks(), problem.microbatches, stages_of_a_rank);
  freedom.rank_of_stage.resize(layout.size() * layout.front().size());
  for (std::size_t rank = 0; rank < layout.size(); ++rank) {
    for (const int stage : layout[rank])
      freedom.rank_of_stage[static_cast<std::size_t>(stage)] = static_cast<int>(rank);
  }
  return freedom;
}

PricedLine priced_line(const OrderFreeProblem& problem, TimePs deadline_ps, planner::WorkReport* work) {
  const std::vector<PowerNw> price_nw = best_prices(problem, deadline_ps, work);
  PricedLine result{.prices = {}, .line = bound_of_prices(problem, price_nw)};
  for (std::size_t i = 0; i < price_nw.size(); ++i) {
    const UnavoidablePath& path = problem.paths[i];
    if (price_nw[i] > 0) result.prices.push_back({path.rank, path.begin, path.end, price_nw[i]});
  }
  return result;
}

/// One line for each deadline that is not before the least time, and one next to it.
LayoutBound layout_bound(OrderFreedom freedom, const OrderFreeProblem& problem, std::span<const double> deadlines_s,
                         planner::WorkReport* work) {
  LayoutBound bound{.freedom = std::move(freedom), .least_time_ps = least_time_ps(problem), .lines = {}};
  const auto nearest = static_cast<TimePs>(static_cast<double>(bound.least_time_ps) * (1 + kLeastRoom));
  std::vector<TimePs> times_ps = {nearest};
  for (const double deadline_s : deadlines_s) {
    if (const TimePs time_ps = ps_from_s(deadline_s); time_ps > nearest) times_ps.push_back(time_ps);
  }
  for (const TimePs time_ps : times_ps) bound.lines.push_back(priced_line(problem, time_ps, work));
  return bound;
}

json json_of(const LayoutBound& bound) {
  json lines = json::array();
  for (const PricedLine& line : bound.lines) {
    json prices = json::array();
    for (const PricedPath& path : line.prices) {
      prices.push_back({{"rank", path.rank},
                        {"begin", name(path.begin)},
                        {"end", name(path.end)},
                        {"price_w", w_from_nw(path.price_nw)}});
    }
    lines.push_back({{"prices", std::move(prices)}});
  }
  return {{"rank_of_stage", bound.freedom.rank_of_stage},
          {"most_activations", bound.freedom.most_activations},
          {"splits_backward", bound.freedom.splits_backward},
          {"lines", std::move(lines)}};
}

}  // namespace

TimePs JointBound::least_time_ps() const {
  return std::ranges::min(layouts_, {}, &LayoutBound::least_time_ps).least_time_ps;
}

double JointBound::lower_bound_j_at(double time_s) const {
  const TimePs time_ps = std::max(ps_from_s(time_s), least_time_ps());
  double least_j = std::numeric_limits<double>::infinity();
  for (const LayoutBound& layout : layouts_) {
    if (time_ps < layout.least_time_ps) continue;
    double bound_j = -std::numeric_limits<double>::infinity();
    for (const PricedLine& line : layout.lines) {
      bound_j = std::max(bound_j, lower_bound_j(line.line, blocking_power_nw_, time_ps));
    }
    least_j = std::min(least_j, bound_j);
  }
  return least_j;
}

JointBound joint_bound(const JointProblem& problem, std::span<const double> deadlines_s, planner::WorkReport* work) {
  require_trained(problem);
  std::vector<bool> splits;
  if (problem.may_join()) splits.push_back(false);
  if (problem.may_split()) splits.push_back(true);
  std::vector<LayoutBound> bounds;
  PowerNw blocking_power_nw = 0;
  for (const schedule::StageLayout& layout : layouts(problem.ranks())) {
    for (const bool splits_backward : splits) {
      OrderFreedom freedom = freedom_of(problem, layout, splits_backward);
      const bool one_each = layout.front().size() == 1;
      const profile::StageProfile of_stages =
          one_each ? problem.profile : with_stages_on_ranks(problem.profile, freedom.rank_of_stage);
      const OrderFreeProblem relaxed = order_free_problem(freedom, of_stages, problem.blocking_power_w);
      blocking_power_nw = relaxed.blocking_power_nw;
      bounds.push_back(layout_bound(std::move(freedom), relaxed, deadlines_s, work));
    }
  }
  return {std::move(bounds), blocking_power_nw};
}

std::string write_joint_bound(const JointBound& bound) {
  json layouts = json::array();
  for (const LayoutBound& layout : bound.layouts()) layouts.push_back(json_of(layout));
  return json({{"format", "lowgear.joint_bound/1"}, {"layouts", std::move(layouts)}}).dump(1) + "\n";
}

std::string_view name(PathBegin begin) {
  return begin == PathBegin::first_forward ? "first_forward" : "first_backward";
}

std::string_view name(PathEnd end) {
  constexpr std::array<std::string_view, 4> kNames = {"last_op", "last_backward", "last_forward", "activations"};
  return kNames[static_cast<std::size_t>(end)];
}

}  // namespace lowgear::joint
