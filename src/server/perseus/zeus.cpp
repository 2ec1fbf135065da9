#include "server/perseus/zeus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server::perseus {
namespace {

const ZeusMeasurement& cheapest(std::span<const ZeusMeasurement> measured, double eta_knob, double max_power_w) {
  return *std::ranges::min_element(measured, {},
                                   [&](const ZeusMeasurement& each) { return each.cost(eta_knob, max_power_w); });
}

/// The highest power state of all GPUs together. With clocks in place of limits this is no power, and the cost weighs
/// by it all the same, as the artifact's does.
double max_power_w(const Layout& layout) {
  return static_cast<double>(layout.power_states.front()) * layout.job.world_size;
}

}  // namespace

ZeusMeasurement measure(int power_state, std::vector<int> power_states, std::span<const Window> window) {
  ZeusMeasurement measurement;
  measurement.power_state = power_state;
  measurement.power_states = std::move(power_states);
  for (const Window& position : window) {
    measurement.time_s = std::max(measurement.time_s, position.iteration_time_s);
    measurement.energy_j += position.iteration_energy_j;
    measurement.power_w += position.power_w;
  }
  return measurement;
}

ZeusGlobalPowerLimit::ZeusGlobalPowerLimit(const Layout& layout, const Arguments& arguments)
    : layout_(layout), eta_knob_(arguments.eta_knob), limits_(layout.power_states) {
  if (limits_.size() < 2) throw InputError("ZeusGlobalPowerLimit compares power limits; register at least two");
  limits_.pop_back();
}

Step ZeusGlobalPowerLimit::schedule() const {
  if (is_warming_up_) return uniform_schedule(layout_, limits_.front());
  if (measured_.size() < limits_.size()) return uniform_schedule(layout_, limits_[measured_.size()]);
  const ZeusMeasurement& best = cheapest(measured_, eta_knob_, max_power_w(layout_));
  return Stop{fmt::format("[profiling-done] the best common power limit is {} W", best.power_state)};
}

void ZeusGlobalPowerLimit::end_window(std::span<const Window> window) {
  if (is_warming_up_) {
    is_warming_up_ = false;
  } else if (measured_.size() < limits_.size()) {
    const int limit = limits_[measured_.size()];
    measured_.push_back(measure(limit, std::vector<int>(window.size(), limit), window));
  }
}

std::vector<File> ZeusGlobalPowerLimit::files() const {
  if (measured_.size() < limits_.size()) return {};
  Json json = Json::object();
  for (const ZeusMeasurement& each : measured_) {
    json[std::to_string(each.power_state)] = {{"time", each.time_s}, {"energy", each.energy_j}};
  }
  return {{"ZeusGlobalPowerLimit.json", json.dump()}};
}

ZeusLocalPowerState::ZeusLocalPowerState(const Layout& layout, Arguments arguments)
    : layout_(layout), arguments_(std::move(arguments)), index_(layout.positions.size(), 0) {}

std::vector<int> ZeusLocalPowerState::states() const {
  std::vector<int> states;
  for (const std::size_t index : index_) states.push_back(layout_.power_states[index]);
  return states;
}

Step ZeusLocalPowerState::schedule() const {
  if (phase_ == Phase::warm_up) return uniform_schedule(layout_, layout_.power_states.front());
  if (phase_ == Phase::balancing) return uniform_schedule(layout_, states());
  const ZeusMeasurement& best = cheapest(measured_, arguments_.eta_knob, max_power_w(layout_));
  return Stop{fmt::format("[profiling-done] the heaviest stage {} is best at power state {}", *heaviest_stage_,
                          best.power_state)};
}

double ZeusLocalPowerState::phase_time_s(const Window& window, std::size_t stage) const {
  const std::optional<Unit>& unit =
      arguments_.balanced_phase == Instruction::forward ? window.forward : window.backward;
  if (unit) return unit->time_s;
  throw InputError(fmt::format("stage {} reported no times of {}; ZeusLocalPowerState balances by them", stage,
                               name(arguments_.balanced_phase)));
}

void ZeusLocalPowerState::begin_round() {
  // A stage that had to be lowered this far for a faster heaviest stage has to be so for a slower one.
  for (std::size_t& index : index_) index = std::max(index, round_);
  target_s_.reset();
}

void ZeusLocalPowerState::end_window(std::span<const Window> window) {
  if (phase_ == Phase::warm_up) {
    phase_ = Phase::balancing;
    begin_round();
    return;
  }
  if (phase_ == Phase::done) return;
  std::vector<double> times_s;
  for (std::size_t stage = 0; stage < window.size(); ++stage) times_s.push_back(phase_time_s(window[stage], stage));
  if (!heaviest_stage_) {
    heaviest_stage_ = static_cast<std::size_t>(std::ranges::max_element(times_s) - times_s.begin());
  }
  if (!target_s_) {
    target_s_ = times_s[*heaviest_stage_];
    search_.assign(window.size(), Search{});
    search_[*heaviest_stage_].found = true;
  }
  if (std::ranges::all_of(search_, &Search::found)) {
    finish_round(window);
    return;
  }
  for (std::size_t stage = 0; stage < search_.size(); ++stage) lower(stage, times_s[stage]);
}

/// Continues with the next lower state while that brings the stage's time closer to the target.
void ZeusLocalPowerState::lower(std::size_t stage, double time_s) {
  Search& search = search_[stage];
  if (search.found) return;
  const double distance_s = std::abs(time_s - *target_s_);
  // A lower state that seems faster is noise, and no reason to turn back.
  const bool goes_on =
      !search.previous_distance_s || distance_s <= *search.previous_distance_s || time_s < search.previous_time_s;
  if (!goes_on) {
    --index_[stage];
    search.found = true;
  } else if (index_[stage] + 1 < layout_.power_states.size()) {
    ++index_[stage];
  } else {
    search.found = true;
  }
  search.previous_distance_s = distance_s;
  search.previous_time_s = time_s;
}

void ZeusLocalPowerState::finish_round(std::span<const Window> window) {
  measured_.push_back(measure(layout_.power_states[round_], states(), window));
  const std::size_t last = layout_.power_states.size() - 1;
  if (round_ == last || std::ranges::find(index_, last) != index_.end()) {
    phase_ = Phase::done;
    return;
  }
  ++round_;
  begin_round();
}

std::vector<File> ZeusLocalPowerState::files() const {
  if (phase_ != Phase::done) return {};
  Json rounds = Json::object();
  for (const ZeusMeasurement& each : measured_) {
    rounds[std::to_string(each.power_state)] = {{"balanced_power_states", each.power_states},
                                                {"throughput", 1 / each.time_s},
                                                {"power", each.power_w},
                                                {"time", each.time_s},
                                                {"energy", each.energy_j}};
  }
  const ZeusMeasurement& best = cheapest(measured_, arguments_.eta_knob, max_power_w(layout_));
  const Json json = {{"heaviest_stage", *heaviest_stage_},
                     {"optimal_heaviest_stage_power_state", best.power_state},
                     {"profiling_results", std::move(rounds)}};
  return {{"ZeusLocalPowerState.json", json.dump()}};
}

}  // namespace lowgear::server::perseus
