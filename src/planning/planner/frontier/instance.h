#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/profile/options.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// Effective energy of an op against its time: convex, falling, piecewise linear, in whole picoseconds and nanowatts.
struct ConvexCost {
  std::vector<TimePs> time_ps;        ///< breakpoints, strictly rising (fastest first); at least one
  std::vector<PowerNw> slope_nw;      ///< energy saved per time between breakpoint j and j + 1; > 0, strictly falling
  EnergyZj energy_at_fastest_zj = 0;  ///< effective energy at time_ps[0]; may be negative

  [[nodiscard]] TimePs fastest_ps() const { return time_ps.front(); }
  [[nodiscard]] TimePs slowest_ps() const { return time_ps.back(); }
  /// Effective energy at any time within the breakpoints.
  [[nodiscard]] EnergyZj energy_zj(TimePs at_ps) const;
};

/// The lower convex hull of Pareto options in integers. Times are rounded up to the picosecond. Slopes are rounded to
/// the nanowatt, so an energy may differ from the option's by 1e-9 W times the time range (about 3e-11 J). An option
/// that saves time at more than 10 MW (two clocks within nanoseconds of each other: noise) is dropped in favour of the
/// slower one. Throws InputError when `options` is empty or a time is beyond kMaxTimeS.
[[nodiscard]] ConvexCost convex_cost(std::span<const profile::Option> options);

/// Minimise the sum of op costs subject to precedence and a deadline: what the frontier solver works on. Holds nothing
/// of GPUs or schedules.
struct ProblemInstance {
  std::vector<ConvexCost> costs;         ///< distinct costs; ops share them
  std::vector<int> cost_of_op;           ///< index into costs, by op
  std::vector<schedule::DagEdge> edges;  ///< between ops
  std::vector<int> topological_order;
  PowerNw blocking_power_nw = 0;  ///< sum over ranks: what one more unit of iteration time costs while all wait

  [[nodiscard]] int op_count() const { return static_cast<int>(cost_of_op.size()); }
  [[nodiscard]] const ConvexCost& cost(int op) const {
    return costs[static_cast<std::size_t>(cost_of_op[static_cast<std::size_t>(op)])];
  }
};

/// Iteration time with every op at the given time: the longest path. `time_ps` by op.
[[nodiscard]] TimePs makespan_ps(const ProblemInstance& instance, std::span<const TimePs> time_ps);

/// The precedence of an instance laid out for walking it both ways, many times, without allocation. Immutable.
class PrecedenceGraph {
 public:
  explicit PrecedenceGraph(const ProblemInstance& instance);

  /// Ops in an order in which each comes after all that it waits for.
  [[nodiscard]] std::span<const std::int32_t> order() const { return order_; }
  /// The same backwards.
  [[nodiscard]] std::span<const std::int32_t> reverse_order() const { return reverse_order_; }
  [[nodiscard]] std::span<const std::int32_t> predecessors(std::int32_t op) const {
    return list(predecessor_begin_, predecessors_, op);
  }
  [[nodiscard]] std::span<const std::int32_t> successors(std::int32_t op) const {
    return list(successor_begin_, successors_, op);
  }

  /// Earliest finish of every op with the given times; returns the makespan. Both by op.
  TimePs finish_times(std::span<const TimePs> time_ps, std::span<TimePs> finish_ps) const;

 private:
  [[nodiscard]] static std::span<const std::int32_t> list(const std::vector<std::int32_t>& begin,
                                                          const std::vector<std::int32_t>& items, std::int32_t op) {
    const auto at = static_cast<std::size_t>(op);
    return std::span(items).subspan(static_cast<std::size_t>(begin[at]),
                                    static_cast<std::size_t>(begin[at + 1] - begin[at]));
  }

  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> reverse_order_;
  std::vector<std::int32_t> predecessor_begin_;
  std::vector<std::int32_t> predecessors_;
  std::vector<std::int32_t> successor_begin_;
  std::vector<std::int32_t> successors_;
};

}  // namespace lowgear::planner
