#include "rivals/policies/perseus/perseus_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "base/core/error.h"
#include "planning/profile/options.h"

namespace lowgear::policies {
namespace {

constexpr int kMaxUnits = 1 << 30;
constexpr int kMaxCurveUnits = 100'000;
constexpr std::size_t kFitNeedsMoreThan = 3;  ///< options: as many as the exponential has parameters

bool beaten(const profile::Measurement& option, std::span<const profile::Measurement> others, double factor) {
  return std::ranges::any_of(others, [&](const profile::Measurement& other) {
    return other.time_s < option.time_s * factor && other.energy_j < option.energy_j * factor;
  });
}

std::vector<QuantisedOption> quantise(std::span<const profile::Measurement> measurements, double unit_s,
                                      double factor) {
  std::map<int, QuantisedOption> by_units;
  for (const profile::Measurement& measurement : measurements) {
    if (beaten(measurement, measurements, factor)) continue;
    const int units = whole_units(measurement.time_s, unit_s);
    const QuantisedOption option{measurement.clock_mhz, units, measurement.energy_j};
    const auto [place, inserted] = by_units.try_emplace(units, option);
    if (!inserted && option.energy_j > place->second.energy_j) place->second = option;
  }
  std::vector<QuantisedOption> options;
  options.reserve(by_units.size());
  for (const auto& [units, option] : by_units) options.push_back(option);
  return options;
}

/// The lower convex hull of the points, read off at every unit.
std::vector<double> hull_energies(std::span<const CurvePoint> points) {
  std::vector<CurvePoint> hull;
  const auto slope = [](const CurvePoint& from, const CurvePoint& to) {
    return (to.energy_j - from.energy_j) / (to.units - from.units);
  };
  for (const CurvePoint& point : points) {
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), point)) hull.pop_back();
    hull.push_back(point);
  }
  std::vector<double> energies{hull.front().energy_j};
  for (std::size_t i = 1; i < hull.size(); ++i) {
    const double first_j = hull[i - 1].energy_j;
    const double slope_j = slope(hull[i - 1], hull[i]);
    const int steps = static_cast<int>(hull[i].units - hull[i - 1].units);
    for (int step = 1; step <= steps; ++step) energies.push_back(first_j + step * slope_j);
  }
  return energies;
}

std::vector<double> fitted_energies(const ExponentialCurve& curve, int fastest_units, int slowest_units) {
  std::vector<double> energies;
  for (int units = fastest_units; units <= slowest_units; ++units) energies.push_back(curve.energy_j(units));
  return energies;
}

/// A slower op that saves nothing is never chosen.
void cut_where_it_stops_falling(std::vector<double>& energies) {
  const auto not_falling = std::ranges::adjacent_find(energies, [](double a, double b) { return !(b < a); });
  if (not_falling != energies.end()) energies.erase(not_falling + 1, energies.end());
}

}  // namespace

int PerseusCurve::slowest_units() const { return fastest_units() + static_cast<int>(effective_energy_j.size()) - 1; }

int PerseusCurve::clock_mhz(int units) const {
  const auto slower = std::ranges::upper_bound(options, units, {}, &QuantisedOption::units);
  return slower == options.begin() ? slower->clock_mhz : std::prev(slower)->clock_mhz;
}

int whole_units(double time_s, double unit_s) {
  // `floor(time / unit)` would round the quotient first: one too many where a time is just below a multiple.
  const double units = std::round((time_s - std::fmod(time_s, unit_s)) / unit_s);
  if (units < 1) {
    throw InputError(fmt::format("perseus: an op of {} s is shorter than the time unit of {} s; choose a smaller unit",
                                 time_s, unit_s));
  }
  if (units > kMaxUnits) {
    throw InputError(fmt::format("perseus: an op of {} s is too long for the time unit of {} s; choose a larger unit",
                                 time_s, unit_s));
  }
  return static_cast<int>(units);
}

std::vector<QuantisedOption> quantised_options(std::span<const profile::Measurement> measurements, double unit_s,
                                               const NoiseTolerance& noise) {
  if (noise.always) return quantise(measurements, unit_s, noise.factor);
  std::vector<QuantisedOption> options = quantise(measurements, unit_s, 1);
  if (options.size() <= kFitNeedsMoreThan) options = quantise(measurements, unit_s, noise.factor);
  return options;
}

PerseusCurve perseus_curve(std::span<const profile::Measurement> measurements, double unit_s, double blocking_power_w,
                           const CurveOptions& options) {
  PerseusCurve curve;
  curve.options = quantised_options(measurements, unit_s, options.noise);
  const int fastest = curve.options.front().units;
  const int slowest = curve.options.back().units;
  if (slowest - fastest > kMaxCurveUnits) {
    throw InputError(
        fmt::format("perseus: the options of one op span {} time units of {} s, more than {}; choose a "
                    "larger unit",
                    slowest - fastest, unit_s, kMaxCurveUnits));
  }
  for (const QuantisedOption& option : curve.options) {
    curve.points.push_back(
        {static_cast<double>(option.units), option.energy_j - blocking_power_w * option.units * unit_s});
  }
  curve.fit =
      options.start ? fit_exponential_from(curve.points, *options.start) : fit_exponential(curve.points, unit_s);
  if (options.start && !curve.fit) {
    throw InputError("perseus: the fit from the initial guess fails; give another one, or none");
  }
  curve.effective_energy_j = curve.fit ? fitted_energies(*curve.fit, fastest, slowest) : hull_energies(curve.points);
  cut_where_it_stops_falling(curve.effective_energy_j);
  return curve;
}

planner::ConvexCost convex_cost(const PerseusCurve& curve, double unit_s) {
  std::vector<profile::Option> options;
  for (std::size_t i = 0; i < curve.effective_energy_j.size(); ++i) {
    const double time_s = (curve.fastest_units() + static_cast<double>(i)) * unit_s;
    options.push_back({.time_s = time_s, .effective_energy_j = curve.effective_energy_j[i]});
  }
  return planner::convex_cost(options);
}

}  // namespace lowgear::policies
