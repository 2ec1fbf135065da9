#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/joint/bound/order_free_bound.h"
#include "planning/joint/orders/joint_problem.h"

namespace lowgear::joint {

/// A path with what a second of its time is worth.
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

/// The bound, with prices for each of the deadlines (at least one). Throws InputError as `OrderSearch` does.
[[nodiscard]] JointBound joint_bound(const JointProblem& problem, std::span<const double> deadlines_s);

/// The bound's prices as JSON (docs/formats.md, "joint_bound.json"), from which the verifier derives it again.
[[nodiscard]] std::string write_joint_bound(const JointBound& bound);

[[nodiscard]] std::string_view name(PathBegin begin);
[[nodiscard]] std::string_view name(PathEnd end);

}  // namespace lowgear::joint
