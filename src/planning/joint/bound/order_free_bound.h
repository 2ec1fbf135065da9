#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/units.h"
#include "planning/joint/bound/unavoidable_paths.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::joint {

/// Least energy over all orders, relaxed: groups of alike ops, and paths of which none may take longer than the
/// iteration. Every order that runs within memory is a solution of it.
struct OrderFreeProblem {
  std::vector<planner::ConvexCost> cost_of_group;  ///< effective energy of one op
  int ops_of_a_group = 0;
  std::vector<UnavoidablePath> paths;
  PowerNw blocking_power_nw = 0;  ///< sum over ranks
};

/// `of_stages` is the profile by virtual stage, `blocking_power_w` by rank. Throws InputError when the profile lacks a
/// (stage, kind) of the freedom.
[[nodiscard]] OrderFreeProblem order_free_problem(const OrderFreedom& freedom, const profile::StageProfile& of_stages,
                                                  std::span<const double> blocking_power_w);

/// No order is faster: the longest path with every op at its fastest.
[[nodiscard]] TimePs least_time_ps(const OrderFreeProblem& problem);

/// What any prices prove: every order of iteration time T has effective energy >= intercept - slope x T. `price_nw`, by
/// path, is what a second of the path's time is worth; none is negative. In whole numbers, so exactly.
///
/// A solution pays at least its energy plus prices for the paths' times beyond T. A path says how many ops of a group
/// it has, not which, so the ops of a group share its price in some way. Each op then takes its cheapest time, and that
/// least cost is concave in its price: the sum over the group is least when all paths choose the same ops. So op m of a
/// group is charged every path by the m-th largest weight that the path has of the group.
[[nodiscard]] planner::BoundLine bound_of_prices(const OrderFreeProblem& problem, std::span<const PowerNw> price_nw);

/// Prices, by path, whose bound is nearly the best one for iterations of at most `deadline_ps` (within some 1e-5 of the
/// relaxation's optimum). By Newton's method on a smoothed bound; the same for the same problem on the same machine.
/// Every result is valid, as `bound_of_prices` counts exactly. `deadline_ps` must be above `least_time_ps`.
[[nodiscard]] std::vector<PowerNw> best_prices(const OrderFreeProblem& problem, TimePs deadline_ps,
                                               planner::WorkReport* work = nullptr);

/// Energy, blocking energy included, that no iteration of at most `deadline_ps` can be below by this line.
[[nodiscard]] double lower_bound_j(const planner::BoundLine& line, PowerNw blocking_power_nw, TimePs deadline_ps);

/// A path with the price of a second of its time.
struct PricedPath {
  int rank = 0;
  PathBegin begin = PathBegin::first_forward;
  PathEnd end = PathEnd::last_op;
  PowerNw price_nw = 0;  ///< above 0
};

/// Prices, and the line below all orders that they prove.
struct PricedLine {
  std::vector<PricedPath> prices;
  planner::BoundLine line;
};

/// What bounds all orders that place stages alike, and split backwards or do not.
struct LayoutBound {
  OrderFreedom freedom;
  TimePs least_time_ps = 0;       ///< no such order is faster
  std::vector<PricedLine> lines;  ///< at least one
};

/// A bound that no order beats, of all those that joint planning considers: one or two stages on each rank, in a loop
/// or a V, backwards whole or split as the profile has them, within the memory limit.
class JointBound {
 public:
  JointBound(std::vector<LayoutBound> layouts, PowerNw blocking_power_nw)
      : layouts_(std::move(layouts)), blocking_power_nw_(blocking_power_nw) {}

  [[nodiscard]] std::span<const LayoutBound> layouts() const { return layouts_; }
  /// No order is faster.
  [[nodiscard]] TimePs least_time_ps() const;
  /// No iteration of at most this time uses less, blocking energy included. An earlier time than any order can reach
  /// counts as the least one: plans may end picoseconds before it, as its times are rounded up.
  [[nodiscard]] double lower_bound_j_at(double time_s) const;

 private:
  std::vector<LayoutBound> layouts_;
  PowerNw blocking_power_nw_ = 0;
};

/// The bound, with prices for each of the deadlines (at least one). `work` may be null. Throws InputError as
/// `OrderSearch` does, and what `work` throws.
[[nodiscard]] JointBound joint_bound(const JointProblem& problem, std::span<const double> deadlines_s,
                                     planner::WorkReport* work = nullptr);

/// The bound's prices as JSON (docs/formats.md, "joint_bound.json"), from which the verifier derives it again.
[[nodiscard]] std::string write_joint_bound(const JointBound& bound);

[[nodiscard]] std::string_view name(PathBegin begin);
[[nodiscard]] std::string_view name(PathEnd end);

}  // namespace lowgear::joint
