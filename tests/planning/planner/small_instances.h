#pragma once

#include <utility>
#include <vector>

#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

/// An instance of ops with a cost of their own each; `edges` are (before, after), from lower to higher numbers.
inline ProblemInstance instance_of(std::vector<ConvexCost> costs, const std::vector<std::pair<int, int>>& edges = {},
                                   PowerNw blocking_power_nw = 0) {
  ProblemInstance instance;
  instance.costs = std::move(costs);
  for (int op = 0; op < static_cast<int>(instance.costs.size()); ++op) {
    instance.cost_of_op.push_back(op);
    instance.topological_order.push_back(op);
  }
  for (const auto& [before, after] : edges) instance.edges.push_back({before, after});
  instance.blocking_power_nw = blocking_power_nw;
  return instance;
}

}  // namespace lowgear::planner
