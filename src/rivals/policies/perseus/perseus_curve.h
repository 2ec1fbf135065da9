#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planning/planner/frontier/instance.h"
#include "planning/profile/stage_profile.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::policies {

/// A measurement on Perseus' grid of time units.
struct QuantisedOption {
  int clock_mhz = 0;
  int units = 0;        ///< time in whole units, rounded down
  double energy_j = 0;  ///< as measured
};

/// Whole units in a time, rounded down. Throws InputError when there is none, or more than 2^30.
[[nodiscard]] int whole_units(double time_s, double unit_s);

/// The options that Perseus keeps, fastest first, each number of units once: those that no other one beats in time
/// *and in measured energy* (not in effective energy), of equal units the one of highest energy. When at most three are
/// left, or always, another one must be better by the tolerance (5 % as in its planner) to drop one.
/// `measurements` must not be empty. Throws InputError when an op is shorter than a unit or longer than 2^30 units.
[[nodiscard]] std::vector<QuantisedOption> quantised_options(std::span<const profile::Measurement> measurements,
                                                             double unit_s, const NoiseTolerance& noise = {});

/// How a curve is made of measurements.
struct CurveOptions {
  NoiseTolerance noise = {};
  std::optional<ExponentialCurve> start = {};  ///< of the fit; none: its search
};

/// Effective energy of an op against its time as Perseus sees it: an exponential through the quantised options, taken
/// at every whole number of units.
struct PerseusCurve {
  std::vector<QuantisedOption> options;    ///< fastest first
  std::vector<CurvePoint> points;          ///< by option: the fitted points, in effective energy
  std::vector<double> effective_energy_j;  ///< at fastest_units(), fastest_units() + 1, ...
  std::optional<ExponentialCurve> fit;     ///< empty: the options' lower convex hull stands in, see perseus_curve

  [[nodiscard]] int fastest_units() const { return options.front().units; }
  [[nodiscard]] int slowest_units() const;
  /// Slowest option that takes at most `units` (at least fastest_units()).
  [[nodiscard]] int clock_mhz(int units) const;
};

/// The curve of one (stage, kind). Where Perseus' planner stops with an error, because three options or fewer are left
/// or no fit is found, the lower convex hull of the options takes the fit's place. The curve ends where it stops
/// falling. Throws InputError as quantised_options, when the options span more than 100,000 units, and when a fit from
/// a given start does not end in a falling convex curve.
[[nodiscard]] PerseusCurve perseus_curve(std::span<const profile::Measurement> measurements, double unit_s,
                                         double blocking_power_w, const CurveOptions& options = {});

/// The curve with a breakpoint at every whole unit.
[[nodiscard]] planner::ConvexCost convex_cost(const PerseusCurve& curve, double unit_s);

}  // namespace lowgear::policies
