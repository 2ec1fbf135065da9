#include "server/fleet/signals.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/http/message/error.h"
#include "protocol/json_members.h"

namespace lowgear::server {
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

void Signals::remove(const std::string& name, Settled settled) {
  if (!signals_.values().contains(name)) {
    throw http::HttpError(http::ErrorCode::no_such_signal,
                          fmt::format("there is no signal {}; GET /v1/signals lists them", quote(name)));
  }
  signals_.remove(name, std::move(settled));
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
