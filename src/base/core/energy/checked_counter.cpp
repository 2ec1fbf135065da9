#include "base/core/energy/checked_counter.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lowgear {
namespace {

/// Counter and power readings are compared over spans of this length, the running one once it is long enough: what
/// differs little shows over a long time.
constexpr double kSpanS = 10;
constexpr double kShortestSpanS = 3;
/// And over the last seconds, or more where there are few readings: what differs much shows soon. A single second of a
/// busy machine is not enough.
constexpr double kRecentS = 3;
constexpr std::ptrdiff_t kFewestRecent = 6;
constexpr std::size_t kMostRecent = 512;
/// Share of a time that power readings must cover to stand for it.
constexpr double kCoveredShare = 0.9;

}  // namespace

CheckedCounter::CheckedCounter(CounterTraits traits)
    : traits_(traits),
      since_change_(traits.power_averaging_s, traits.highest_power_w),
      span_(traits.power_averaging_s, traits.highest_power_w) {}

std::optional<double> CheckedCounter::energy_j() const { return last_j_ ? std::optional(sum_j_) : std::nullopt; }

std::optional<IntegratedPower> CheckedCounter::readings(const PowerIntegral& power) const {
  return traits_.compares_power && power.comparable() && power.is_even() ? std::optional(power.until(0)) : std::nullopt;
}

EnergyVerdict CheckedCounter::add(const CounterReading& reading) {
  const bool is_first = !last_j_;
  const double over_s = is_first ? 0 : std::max(0.0, reading.time_s - last_time_s_);
  last_time_s_ = reading.time_s;
  since_change_.add(reading.power_w, over_s);
  span_.add(reading.power_w, over_s);
  if (traits_.compares_power) recent_.push_back({.reading = reading, .over_s = over_s, .counted_j = counted_j_});
  if (recent_.size() > kMostRecent) recent_.pop_front();
  if (!reading.energy_j) return {};
  if (is_first) {
    last_j_ = sum_j_ = *reading.energy_j;
    changed_s_ = span_start_s_ = reading.time_s;
    changed_error_s_ = reading.time_error_s;
    return {};
  }
  const double step_j = *reading.energy_j - *last_j_;
  if (step_j == 0) {
    look_for_standstill(reading);
    return {};
  }
  last_j_ = reading.energy_j;
  return add_step(reading, step_j);
}

StatedEnergy CheckedCounter::stated(double energy_j, double time_s, double period_s,
                                    std::optional<IntegratedPower> readings) const {
  return {.energy_j = energy_j,
          .time_s = time_s,
          .period_s = period_s,
          .highest_power_w = traits_.highest_power_w,
          .lasting_power_w = traits_.lasting_power_w,
          .lowest_power_w = traits_.lowest_power_w,
          .readings = readings};
}

/// A GPU or CPU that is on draws power, whatever it does.
void CheckedCounter::look_for_standstill(const CounterReading& reading) {
  const bool was_still = !still_.usable();
  const double still_s = reading.time_s - changed_s_ - reading.time_error_s - changed_error_s_;
  const bool covered = since_change_.covered_s() >= kCoveredShare * still_s;
  still_ = check_energy(stated(0, still_s, traits_.period_s, covered ? readings(since_change_) : std::nullopt));
  // Within a step the counter shows no energy yet.
  if (still_.fault != EnergyFault::stands_still) still_ = {};
  if (!was_still && !still_.usable()) note(EnergyFault::stands_still);
}

EnergyVerdict CheckedCounter::judge_step(const CounterReading& reading, double step_j) const {
  const double over_s = reading.time_s - changed_s_;
  const bool stood_still = over_s > kLongestStepS + traits_.period_s;
  const bool covered = since_change_.covered_s() >= kCoveredShare * over_s;
  return check_energy(stated(step_j, over_s, traits_.period_s + reading.time_error_s + changed_error_s_,
                             stood_still && covered ? readings(since_change_) : std::nullopt));
}

double CheckedCounter::instead_of_step_j(double over_s) const {
  const double covered_s = since_change_.covered_s();
  return over_s * (covered_s > 0 ? since_change_.energy_j() / covered_s : step_power_w_);
}

EnergyVerdict CheckedCounter::add_step(const CounterReading& reading, double step_j) {
  EnergyVerdict verdict = judge_step(reading, step_j);
  const double over_s = std::max(0.0, reading.time_s - changed_s_);
  const bool was_usable = recent_verdict_.usable() && span_verdict_.usable();
  if (verdict.usable()) {
    span_counted_j_ += step_j;
    counted_j_ += step_j;
    has_moved_ = true;
    if (over_s > 0) step_power_w_ = step_j / over_s;
  } else {
    note(verdict.fault);
  }
  sum_j_ += verdict.usable() && was_usable ? step_j : instead_of_step_j(over_s);
  changed_s_ = reading.time_s;
  changed_error_s_ = reading.time_error_s;
  since_change_ = PowerIntegral(traits_.power_averaging_s, traits_.highest_power_w);
  since_change_.add(reading.power_w, 0);
  still_ = {};
  if (!verdict.usable() && !recent_.empty()) recent_.erase(recent_.begin(), recent_.end() - 1);
  const bool recent_was_usable = recent_verdict_.usable();
  judge_recent();
  judge_span();
  if (was_usable && !state().usable()) note(state().fault);
  const bool has_turned = recent_was_usable != recent_verdict_.usable();
  const bool ends_span = !verdict.usable() || has_turned || changed_s_ - span_start_s_ >= kSpanS;
  if (ends_span) {
    span_start_s_ = changed_s_;
    span_counted_j_ = 0;
    span_ = since_change_;
  }
  return verdict;
}

void CheckedCounter::judge(EnergyVerdict& verdict, double energy_j, double time_s, double time_error_s,
                           const PowerIntegral& power) const {
  const bool covered = power.covered_s() >= kCoveredShare * time_s && readings(power).has_value();
  EnergyVerdict now =
      check_energy(stated(energy_j, time_s, traits_.period_s + time_error_s, covered ? readings(power) : std::nullopt));
  // Without readings nothing is known of a contradiction.
  const bool may_hold_on = verdict.fault == EnergyFault::contradicts && !covered && now.usable();
  if (!may_hold_on) verdict = std::move(now);
}

void CheckedCounter::judge_span() {
  const double span_s = changed_s_ - span_start_s_;
  if (span_s >= kShortestSpanS) judge(span_verdict_, span_counted_j_, span_s, 0, span_);
}

/// From one step of the counter to its newest.
void CheckedCounter::judge_recent() {
  if (recent_.empty()) return;
  recent_.back().counted_j = counted_j_;
  recent_.back().is_step = true;
  for (;;) {
    const auto next = std::find_if(recent_.begin() + 1, recent_.end(), [](const Recent& each) { return each.is_step; });
    const bool leaves_enough = recent_.end() - next >= kFewestRecent && changed_s_ - next->reading.time_s >= kRecentS;
    if (!leaves_enough) break;
    recent_.erase(recent_.begin(), next);
  }
  const Recent& begin = recent_.front();
  const double over_s = changed_s_ - begin.reading.time_s;
  if (!begin.is_step || over_s < kRecentS) return;
  PowerIntegral power(traits_.power_averaging_s, traits_.highest_power_w);
  for (const Recent& each : recent_) power.add(each.reading.power_w, &each == &begin ? 0 : each.over_s);
  judge(recent_verdict_, counted_j_ - begin.counted_j, over_s, begin.reading.time_error_s + changed_error_s_, power);
}

}  // namespace lowgear
