#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <vector>

#include "planning/planner/frontier/work_report.h"

namespace lowgear::joint {

/// A price that an op is charged, by index, and how often.
struct Charge {
  std::size_t price = 0;
  double times = 1;

  friend auto operator<=>(const Charge&, const Charge&) = default;
};

/// An op that may be run in several ways, as often as `count` alike ones occur. Of dimension 1 throughout.
struct PricedOp {
  std::vector<double> time;     ///< by way, rising
  std::vector<double> energy;   ///< by way
  std::vector<Charge> charges;  ///< their sum times its time
  double count = 1;
};

/// Non-negative prices that nearly maximise
///
///     sum over ops of count x min over ways of (energy + price x time)  -  sum of prices
///
/// a concave function. Newton's method on a smoothed minimum (temperature) with a barrier against negative prices; both
/// are lowered in steps. `price_count` is at least 1. Throws only what `work`
/// throws, which may be null; returns its last prices where it cannot go on.
[[nodiscard]] std::vector<double> search_prices(std::span<const PricedOp> ops, std::size_t price_count,
                                                planner::WorkReport* work = nullptr);

}  // namespace lowgear::joint
