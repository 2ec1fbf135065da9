#pragma once

#include <algorithm>
#include <cstddef>

#include "base/core/units.h"

namespace lowgear::planner {

/// Deadlines spread evenly over a frontier. The library of plans is made for them, and the walk along the frontier
/// keeps a state before each, so that they need no walks of their own.
struct DeadlineGrid {
  TimePs fastest_ps = 0;
  TimePs step_ps = 0;
  TimePs count = 0;

  [[nodiscard]] TimePs at_ps(TimePs k) const { return fastest_ps + step_ps * k; }
};

/// Work is counted in visits of ops, so that a pipeline of any size gets its library in a similar time (about 5 ns
/// each).
[[nodiscard]] inline DeadlineGrid deadline_grid(TimePs fastest_ps, TimePs slowest_ps, std::size_t ops) {
  constexpr std::size_t kVisits = 6'000'000;
  constexpr std::size_t kVisitsPerDeadline = 36;  // per op: six roundings, each with its reclaim
  const std::size_t count =
      std::clamp<std::size_t>(kVisits / (kVisitsPerDeadline * std::max<std::size_t>(ops, 1)), 16, 192);
  const auto deadlines = static_cast<TimePs>(count);
  return {fastest_ps, (slowest_ps - fastest_ps) / (deadlines - 1), deadlines};
}

}  // namespace lowgear::planner
