#include "planning/planner/random_instances.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace lowgear::planner {
namespace {

ConvexCost random_cost(std::mt19937_64& random, const RandomInstanceLimits& limits) {
  ConvexCost cost;
  cost.time_ps.push_back(random_in(random, 1, limits.max_time_ps));
  // More than the pieces can save, so that energies stay above zero and can be compared relative to their size.
  cost.energy_at_fastest_zj =
      static_cast<EnergyZj>(random_in(random, limits.max_time_ps, 2 * limits.max_time_ps)) * limits.max_slope_nw;
  const std::int64_t pieces = random_in(random, 0, limits.max_pieces);
  for (std::int64_t k = 0; k < pieces; ++k) cost.slope_nw.push_back(random_in(random, 1, limits.max_slope_nw));
  std::sort(cost.slope_nw.begin(), cost.slope_nw.end(), std::greater<>());
  cost.slope_nw.erase(std::unique(cost.slope_nw.begin(), cost.slope_nw.end()), cost.slope_nw.end());
  for (std::size_t k = 0; k < cost.slope_nw.size(); ++k) {
    const TimePs most_ps = std::max<TimePs>(limits.max_time_ps / limits.max_pieces, 1);
    cost.time_ps.push_back(cost.time_ps.back() + random_in(random, 1, most_ps));
  }
  return cost;
}

}  // namespace

std::int64_t random_in(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

ProblemInstance random_instance(std::mt19937_64& random, const RandomInstanceLimits& limits) {
  ProblemInstance instance;
  const auto ops = static_cast<int>(random_in(random, limits.min_ops, limits.max_ops));
  const std::int64_t costs = random_in(random, 1, ops);
  for (std::int64_t k = 0; k < costs; ++k) instance.costs.push_back(random_cost(random, limits));
  for (int op = 0; op < ops; ++op) {
    instance.cost_of_op.push_back(static_cast<int>(random_in(random, 0, costs - 1)));
  }
  instance.topological_order.resize(static_cast<std::size_t>(ops));
  std::iota(instance.topological_order.begin(), instance.topological_order.end(), 0);
  for (int last = ops - 1; last > 0; --last) {
    std::swap(instance.topological_order[static_cast<std::size_t>(last)],
              instance.topological_order[static_cast<std::size_t>(random_in(random, 0, last))]);
  }
  const std::int64_t edge_per_mille = random_in(random, 20, 500);
  for (std::size_t i = 0; i < instance.topological_order.size(); ++i) {
    for (std::size_t j = i + 1; j < instance.topological_order.size(); ++j) {
      if (random_in(random, 0, 999) >= edge_per_mille) continue;
      instance.edges.push_back({instance.topological_order[i], instance.topological_order[j]});
    }
  }
  instance.blocking_power_nw = random_in(random, 0, limits.max_blocking_power_nw);
  return instance;
}

}  // namespace lowgear::planner
