#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

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
