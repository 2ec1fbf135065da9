#include "planning/planner/frontier/periodic.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/core/units.h"

namespace lowgear::planner {
namespace {

/// Whether both have the same vertices and bounds but for where they are.
bool have_same_shape(const Frontier& a, const Frontier& b) {
  return a.vertices().size() == b.vertices().size() &&
         std::ranges::equal(a.bounds(), b.bounds(), {}, &BoundLine::slope_nw, &BoundLine::slope_nw);
}

/// `from`, moved on by `steps` times its difference to `next`.
Frontier carried_on(const Frontier& from, const Frontier& next, int steps) {
  std::vector<FrontierVertex> vertices;
  for (std::size_t k = 0; k < from.vertices().size(); ++k) {
    const FrontierVertex& a = from.vertices()[k];
    const FrontierVertex& b = next.vertices()[k];
    vertices.push_back({a.time_ps + steps * (b.time_ps - a.time_ps),
                        a.effective_energy_zj + steps * (b.effective_energy_zj - a.effective_energy_zj)});
  }
  std::vector<BoundLine> bounds;
  for (std::size_t k = 0; k < from.bounds().size(); ++k) {
    const BoundLine& a = from.bounds()[k];
    const BoundLine& b = next.bounds()[k];
    bounds.push_back({a.slope_nw, a.intercept_zj + steps * (b.intercept_zj - a.intercept_zj)});
  }
  return {std::move(vertices), std::move(bounds), from.blocking_power_nw()};
}

bool are_equal(const Frontier& a, const Frontier& b) {
  return std::ranges::equal(a.vertices(), b.vertices(), [](const FrontierVertex& x, const FrontierVertex& y) {
    return x.time_ps == y.time_ps && x.effective_energy_zj == y.effective_energy_zj;
  });
}

}  // namespace

std::optional<PeriodicFrontier> solve_periodic(const InstanceOfMicrobatches& instance_of, int microbatches, int first) {
  const auto solved = [&](int count) { return solve_frontier(instance_of(count)); };
  for (int m0 = first; m0 < microbatches - 2; m0 += (m0 + 1) / 2) {
    const Frontier a = solved(m0);
    const Frontier b = solved(m0 + 1);
    if (!have_same_shape(a, b)) continue;
    const Frontier c = solved(m0 + 2);
    if (!have_same_shape(a, c) || !are_equal(carried_on(a, b, 2), c)) continue;
    return PeriodicFrontier{carried_on(a, b, microbatches - m0), m0};
  }
  return std::nullopt;
}

}  // namespace lowgear::planner
