#include "server/job/job_targets.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "server/store/store.h"

namespace lowgear::server {
namespace {

constexpr auto kTargets = std::to_array<std::string_view>({"straggler", "power_cap", "settings"});

std::optional<double> optional_number(const JsonView& object, std::string_view key) {
  return has_value(object, key) ? std::optional(object.at(key).number()) : std::nullopt;
}

}  // namespace

std::string_view name(JobTargets::Change::Target target) { return kTargets[static_cast<std::size_t>(target)]; }

Json to_json(const std::optional<api::PowerCap>& cap) {
  if (!cap) return nullptr;
  return {{"scope", name(cap->scope)}, {"watts", or_null(cap->watts)}, {"swing_w", or_null(cap->swing_w)}};
}

api::CapScope read_cap_scope(const JsonView& value) {
  const std::string text = value.text();
  const auto scope = api::cap_scope(text);
  if (!scope) value.fail(fmt::format("is {}", quote(text)), "use gpu, node or job");
  return *scope;
}

JobTargets::Change JobTargets::set_straggler(int rank, double factor, bool is_detected) {
  Change change{.target = Change::Target::straggler, .rank = rank, .set_by = 0, .reason = {}};
  const auto known = slow_.find(rank);
  const bool is_same =
      factor == 1 ? known == slow_.end() && !is_detected : known != slow_.end() && known->second.factor == factor;
  if (is_same) change.set_by = stragglers_set_by_[rank];
  if (change.set_by != 0) return change;
  if (factor == 1) {
    slow_.erase(rank);
    change.reason = fmt::format("rank {} was reported to be no straggler any more", rank);
  } else {
    slow_[rank] = {factor, "reported"};
    change.reason = fmt::format("rank {} was reported to be {:.3g} times slower", rank, factor);
  }
  return change;
}

JobTargets::Change JobTargets::set_power_cap(const std::optional<api::PowerCap>& cap) {
  Change change{.target = Change::Target::power_cap, .rank = 0, .set_by = 0, .reason = {}};
  if (cap == power_cap_) change.set_by = power_cap_set_by_;
  if (change.set_by != 0) return change;
  power_cap_ = cap;
  change.reason = describe(cap);
  return change;
}

JobTargets::Change JobTargets::set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct) {
  Change change{.target = Change::Target::settings, .rank = 0, .set_by = 0, .reason = {}};
  const double wanted_slowdown_pct = slowdown_pct.value_or(slowdown_pct_);
  const double wanted_guard_pct = guard_pct.value_or(guard_pct_);
  if (wanted_slowdown_pct == slowdown_pct_ && wanted_guard_pct == guard_pct_) change.set_by = settings_set_by_;
  if (change.set_by != 0) return change;
  slowdown_pct_ = wanted_slowdown_pct;
  guard_pct_ = wanted_guard_pct;
  change.reason = fmt::format("plans may be {:.4g} % slower than the fastest, the guard allows {:.4g} %", slowdown_pct_,
                              guard_pct_);
  return change;
}

void JobTargets::note(const Change& change, std::int64_t decision) {
  switch (change.target) {
    case Change::Target::straggler:
      stragglers_set_by_[change.rank] = decision;
      return;
    case Change::Target::power_cap:
      power_cap_set_by_ = decision;
      return;
    case Change::Target::settings:
      settings_set_by_ = decision;
      return;
  }
}

bool JobTargets::set_signal(double slowdown_pct) {
  return std::exchange(signal_slowdown_pct_, slowdown_pct) != slowdown_pct;
}

bool JobTargets::set_budget(double slowdown_pct) {
  return std::exchange(budget_slowdown_pct_, slowdown_pct) != slowdown_pct;
}

void JobTargets::restore(const JsonView& state) {
  slowdown_pct_ = state.at("slowdown_pct").number();
  guard_pct_ = state.at("guard_pct").number();
  slow_ = read_slow_ranks(state.at("reported_slow"));
  if (has_value(state, "set_by")) {
    const JsonView set_by = state.at("set_by");
    power_cap_set_by_ = set_by.at("power_limit").integer();
    settings_set_by_ = set_by.at("settings").integer();
    const JsonView stragglers = set_by.at("stragglers");
    for (std::size_t i = 0; i < stragglers.size(); ++i) {
      const JsonView straggler = stragglers.at(i);
      stragglers_set_by_[straggler.at("rank").integer_in(0, kMaxStoredNumber)] = straggler.at("decision").integer();
    }
  }
  if (!has_value(state, "power_limit")) return;
  const JsonView cap = state.at("power_limit");
  power_cap_ = api::PowerCap{.scope = read_cap_scope(cap.at("scope")),
                             .watts = optional_number(cap, "watts"),
                             .swing_w = optional_number(cap, "swing_w")};
}

void JobTargets::write_state(Json& state) const {
  Json stragglers = Json::array();
  for (const auto& [rank, decision] : stragglers_set_by_) {
    stragglers.push_back({{"rank", rank}, {"decision", decision}});
  }
  state["slowdown_pct"] = slowdown_pct_;
  state["guard_pct"] = guard_pct_;
  state["reported_slow"] = to_json(slow_);
  state["set_by"] = {
      {"power_limit", power_cap_set_by_}, {"settings", settings_set_by_}, {"stragglers", std::move(stragglers)}};
  state["power_limit"] = to_json(power_cap_);
}

}  // namespace lowgear::server
