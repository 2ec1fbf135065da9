#pragma once

#include <array>
#include <span>
#include <vector>

#include "estimating/power/voltage_curve.h"

namespace lowgear::curve {

/// Clocks at which a fit has unknown values of V^2; it is linear in between, and 1 at the highest clock.
class VoltageTable {
 public:
  VoltageTable() = default;
  /// Evenly from the lowest of the clocks to the highest. No knots where all clocks are within `tolerance_mhz` of it.
  VoltageTable(std::span<const double> clocks_mhz, double max_mhz, double tolerance_mhz);

  /// By rising clock, all below the highest.
  [[nodiscard]] const std::vector<double>& knots() const { return knots_; }

  /// Share of a knot in V^2 at a clock; knot -1: the highest clock.
  struct Weight {
    int knot = -1;
    double weight = 0;
  };
  [[nodiscard]] std::array<Weight, 2> weights(double clock_mhz) const;

 private:
  std::vector<double> knots_;
  double step_mhz_ = 0;
};

/// Makes V^2 rise with the clock: neighbours out of order become their mean, weighted by the inverse squares of their
/// errors (pool adjacent violators; Ayer et al., Ann. Math. Stat. 26, 1955). The last point keeps its value.
void make_monotone(std::vector<power::VoltagePoint>& points);

/// The points with others below them, down to `to_mhz`: the voltage falls on in the line of the lowest third. Their
/// error is at least half of what V^2 falls below the first point, since the voltage may have reached its floor.
[[nodiscard]] std::vector<power::VoltagePoint> with_extrapolation(std::vector<power::VoltagePoint> points,
                                                                  double to_mhz);

}  // namespace lowgear::curve
