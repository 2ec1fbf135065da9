#include "server/steering/signal_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

void check_points(std::string_view name, const std::vector<SignalPoint>& points) {
  if (points.empty()) throw InputError(fmt::format("{} signal: it has no points; give one at least", name));
  if (points.size() > kMaxSignalPoints) {
    throw InputError(fmt::format("{} signal: {} points; give at most {}", name, points.size(), kMaxSignalPoints));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].time_s) || !std::isfinite(points[i].value)) {
      throw InputError(fmt::format("{} signal: point {} is {} at {} s; both must be finite", name, i, points[i].value,
                                   points[i].time_s));
    }
    if (i > 0 && points[i].time_s <= points[i - 1].time_s) {
      throw InputError(
          fmt::format("{} signal: point {} at {} s is not after the one before it, at {} s; sort the points "
                      "by time, each time once",
                      name, i, points[i].time_s, points[i - 1].time_s));
    }
  }
}

void check_thresholds(std::string_view name, const std::vector<SignalThreshold>& thresholds) {
  if (thresholds.empty() || thresholds.size() > kMaxSignalThresholds) {
    throw InputError(
        fmt::format("{} signal: {} thresholds; give 1 to {}", name, thresholds.size(), kMaxSignalThresholds));
  }
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    const SignalThreshold& threshold = thresholds[i];
    if (!std::isfinite(threshold.at_least)) {
      throw InputError(
          fmt::format("{} signal: threshold {} begins at {}; it must be finite", name, i, threshold.at_least));
    }
    if (!(threshold.slowdown_pct >= 0 && threshold.slowdown_pct <= kMaxSignalSlowdownPct)) {
      throw InputError(fmt::format("{} signal: threshold {} allows a slowdown of {} %; it must be from 0 to {} %", name,
                                   i, threshold.slowdown_pct, kMaxSignalSlowdownPct));
    }
    if (i > 0 && threshold.at_least <= thresholds[i - 1].at_least) {
      throw InputError(
          fmt::format("{} signal: threshold {} begins at {}, the one before it at {}; sort them by value, "
                      "each value once",
                      name, i, threshold.at_least, thresholds[i - 1].at_least));
    }
  }
}

}  // namespace

SignalPolicy::SignalPolicy(std::string_view name, std::vector<SignalPoint> points,
                           std::vector<SignalThreshold> thresholds, double hold_last_s)
    : points_(std::move(points)), thresholds_(std::move(thresholds)) {
  check_points(name, points_);
  check_thresholds(name, thresholds_);
  if (!(hold_last_s > 0) || !std::isfinite(hold_last_s)) {
    throw InputError(
        fmt::format("{} signal: the last point holds for {} s; it must be above 0 and finite", name, hold_last_s));
  }
  end_s_ = points_.back().time_s + hold_last_s;
}

SignalState SignalPolicy::at(double time_s) const {
  auto next = std::ranges::upper_bound(points_, time_s, {}, &SignalPoint::time_s);
  SignalState state;
  if (next != points_.begin() && time_s < end_s_) {
    state.value = std::prev(next)->value;
    state.slowdown_pct = slowdown_pct(*state.value);
  }
  for (; next != points_.end(); ++next) {
    if (slowdown_pct(next->value) == state.slowdown_pct) continue;
    state.next_change_s = next->time_s;
    return state;
  }
  if (state.slowdown_pct != 0) state.next_change_s = end_s_;
  return state;
}

double SignalPolicy::slowdown_pct(double value) const {
  const auto above = std::ranges::upper_bound(thresholds_, value, {}, &SignalThreshold::at_least);
  return above == thresholds_.begin() ? 0 : std::prev(above)->slowdown_pct;
}

}  // namespace lowgear::server
