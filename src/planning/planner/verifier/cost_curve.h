#pragma once

#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::planner::verifier {

/// Least effective energy (energy - blocking power x time) of an op against its time, from its measurements: the lower
/// convex hull of those that no other one beats, with mixtures of clocks in between.
///
/// The numbers are those that docs/formats.md states for certificates: effective energy in double precision, times to
/// the next whole picosecond, slopes to the nearest nanowatt; a clock that saves time at more than 10 MW is left out.
class CostCurve {
 public:
  /// `measurements` must not be empty.
  CostCurve(std::span<const profile::Measurement> measurements, double blocking_power_w);

  [[nodiscard]] TimePs fastest_ps() const { return corners_.front().time_ps; }
  [[nodiscard]] TimePs slowest_ps() const { return corners_.back().time_ps; }
  /// At a time between fastest and slowest.
  [[nodiscard]] EnergyZj energy_zj(TimePs time_ps) const;
  /// Least of energy + price x time over all times.
  [[nodiscard]] EnergyZj least_at_price_zj(PowerNw price_nw) const;

 private:
  struct Corner {
    TimePs time_ps = 0;
    EnergyZj energy_zj = 0;
    PowerNw slope_nw = 0;  ///< energy saved per time from here to the next slower corner
  };
  std::vector<Corner> corners_;  ///< fastest first
};

}  // namespace lowgear::planner::verifier
