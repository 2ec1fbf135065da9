#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planning/planner/frontier/precedence.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

/// Makespans of a pipeline that takes one plan's clocks for the first ops of an order and another plan's for the rest,
/// for any number of first ops: two sweeps over all ops in the beginning, then a look at the edges across the split.
class SplitPlan {
 public:
  /// `first` and `rest`: by op, index into the model's choices. `order` must have each op after all that it waits for.
  /// The graph is of the model's instance and must outlive this.
  SplitPlan(const PlanningModel& model, const PrecedenceGraph& graph, std::span<const std::int32_t> order,
            std::span<const std::int32_t> first, std::span<const std::int32_t> rest);

  /// With the first plan's clocks for `count` (0 to all) ops of the order.
  [[nodiscard]] TimePs makespan_ps(std::size_t count) const;

 private:
  void sweep_forwards(const PlanningModel& model, std::span<const std::int32_t> first);
  void sweep_backwards(const PlanningModel& model, std::span<const std::int32_t> rest);

  const PrecedenceGraph* graph_;
  std::span<const std::int32_t> order_;
  std::vector<std::size_t> position_;  ///< by op: in the order
  std::vector<TimePs> finish_ps_;      ///< by op: earliest, with the first plan's clocks
  std::vector<TimePs> tail_ps_;        ///< by op: from its start to the end, with the rest's clocks
  std::vector<TimePs> first_ps_;       ///< by count: makespan of the first ops alone
  std::vector<TimePs> rest_ps_;        ///< by count: makespan of the rest alone
  std::size_t widest_ = 0;             ///< farthest that an edge reaches in the order
};

}  // namespace lowgear::planner
