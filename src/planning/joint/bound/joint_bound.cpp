#include "planning/joint/bound/joint_bound.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "planning/joint/orders/candidate_orders.h"
#include "planning/schedule/list_schedule.h"

namespace lowgear::joint {
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

PricedLine priced_line(const OrderFreeProblem& problem, TimePs deadline_ps) {
  const std::vector<PowerNw> price_nw = best_prices(problem, deadline_ps);
  PricedLine result{.prices = {}, .line = bound_of_prices(problem, price_nw)};
  for (std::size_t i = 0; i < price_nw.size(); ++i) {
    const UnavoidablePath& path = problem.paths[i];
    if (price_nw[i] > 0) result.prices.push_back({path.rank, path.begin, path.end, price_nw[i]});
  }
  return result;
}

/// One line for each deadline that is not before the least time, and one next to it.
LayoutBound layout_bound(OrderFreedom freedom, const OrderFreeProblem& problem, std::span<const double> deadlines_s) {
  LayoutBound bound{.freedom = std::move(freedom), .least_time_ps = least_time_ps(problem), .lines = {}};
  const auto nearest = static_cast<TimePs>(static_cast<double>(bound.least_time_ps) * (1 + kLeastRoom));
  std::vector<TimePs> times_ps = {nearest};
  for (const double deadline_s : deadlines_s) {
    if (const TimePs time_ps = ps_from_s(deadline_s); time_ps > nearest) times_ps.push_back(time_ps);
  }
  for (const TimePs time_ps : times_ps) bound.lines.push_back(priced_line(problem, time_ps));
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

JointBound joint_bound(const JointProblem& problem, std::span<const double> deadlines_s) {
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
      bounds.push_back(layout_bound(std::move(freedom), relaxed, deadlines_s));
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
