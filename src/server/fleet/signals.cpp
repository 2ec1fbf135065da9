#include "server/fleet/signals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "protocol/json_members.h"
#include "server/fleet/refusal.h"

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
  const auto next = std::ranges::upper_bound(points_, time_s, {}, &SignalPoint::time_s);
  SignalState state;
  if (next != points_.begin() && time_s < end_s_) {
    state.value = std::prev(next)->value;
    state.slowdown_pct = slowdown_pct(*state.value);
  }
  return state;
}

double SignalPolicy::slowdown_pct(double value) const {
  const auto above = std::ranges::upper_bound(thresholds_, value, {}, &SignalThreshold::at_least);
  return above == thresholds_.begin() ? 0 : std::prev(above)->slowdown_pct;
}

Signal read_signal(const std::string& name, const JsonView& body) {
  require_members(body, {"unit", "points", "rules"});
  if (has_value(body, "unit")) (void)protocol::name_text(body.at("unit"));
  const JsonView points = body.at("points");
  if (points.size() > kMaxSignalPoints) points.fail(fmt::format("more than {} points", kMaxSignalPoints));
  std::vector<SignalPoint> values;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points.at(i).size() != 2) points.at(i).fail("expected [time_s, value]");
    values.push_back({.time_s = protocol::calendar_time_s(points.at(i).at(0)), .value = points.at(i).at(1).number()});
  }
  const JsonView rules = body.at("rules");
  if (rules.size() > kMaxSignalThresholds) rules.fail(fmt::format("more than {} rules", kMaxSignalThresholds));
  std::vector<SignalThreshold> thresholds;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    require_members(rules.at(i), {"above", "slowdown_pct"});
    thresholds.push_back(
        {.at_least = rules.at(i).at("above").number(), .slowdown_pct = rules.at(i).at("slowdown_pct").number()});
  }
  return {body.json().dump(), SignalPolicy(name, std::move(values), std::move(thresholds)), {}};
}

Signals::Signals(WatchedStore& store, std::function<void()> changed)
    : signals_("signal/", read_signal, store, std::move(changed)) {}

void Signals::remove(const std::string& name, OnCommitted on_committed) {
  if (!signals_.values().contains(name)) {
    throw Refused(Refusal::no_such_signal,
                  fmt::format("there is no signal {}; GET /v1/signals lists them", quote(name)));
  }
  signals_.remove(name, std::move(on_committed));
}

Signals::Allowance Signals::follow(double now_s) {
  Allowance allowance{.slowdown_pct = 0, .why = "no signal allows jobs to be slower any more"};
  for (auto& [name, signal] : signals_.values()) {
    signal.state = signal.policy.at(now_s);
    if (signal.state.slowdown_pct <= allowance.slowdown_pct) continue;
    allowance.slowdown_pct = signal.state.slowdown_pct;
    allowance.why = fmt::format("signal {} is at {:.6g}: jobs may be {:.4g} % slower", name,
                                signal.state.value.value_or(0), allowance.slowdown_pct);
  }
  return allowance;
}

Json Signals::to_json() const {
  Json list = Json::array();
  for (const auto& [name, signal] : signals_.values()) {
    Json entry = Json::parse(signal.document);
    entry["name"] = name;
    entry["value"] = signal.state.value ? Json(*signal.state.value) : Json(nullptr);
    entry["slowdown_pct"] = signal.state.slowdown_pct;
    list.push_back(std::move(entry));
  }
  return {{"signals", std::move(list)}};
}

}  // namespace lowgear::server
