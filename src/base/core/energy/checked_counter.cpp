#include "base/core/energy/checked_counter.h"

#include <algorithm>

namespace lowgear {
namespace {

/// Counter and power readings are compared over spans of this length, the running one once it is long enough.
constexpr double kSpanS = 10;
constexpr double kShortestSpanS = 3;
/// Share of a time that power readings must cover to stand for it.
constexpr double kCoveredShare = 0.9;

}  // namespace

CheckedCounter::CheckedCounter(CounterTraits traits)
    : traits_(traits), since_change_(traits.power_averaging_s), span_(traits.power_averaging_s) {}

std::optional<double> CheckedCounter::energy_j() const { return last_j_ ? std::optional(sum_j_) : std::nullopt; }

std::optional<IntegratedPower> CheckedCounter::readings(const PowerIntegral& power) const {
  return traits_.compares_power && power.comparable() ? std::optional(power.until(0)) : std::nullopt;
}

EnergyVerdict CheckedCounter::add(const CounterReading& reading) {
  const bool is_first = !last_j_;
  const double over_s = is_first ? 0 : std::max(0.0, reading.time_s - last_time_s_);
  last_time_s_ = reading.time_s;
  since_change_.add(reading.power_w, over_s);
  span_.add(reading.power_w, over_s);
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

/// A GPU or CPU that is on draws power, whatever it does.
void CheckedCounter::look_for_standstill(const CounterReading& reading) {
  const bool was_still = !still_.usable();
  const double still_s = reading.time_s - changed_s_ - reading.time_error_s - changed_error_s_;
  const bool covered = since_change_.covered_s() >= kCoveredShare * still_s;
  still_ = check_energy({.energy_j = 0,
                         .time_s = still_s,
                         .period_s = traits_.period_s,
                         .highest_power_w = traits_.highest_power_w,
                         .readings = covered ? readings(since_change_) : std::nullopt});
  // Within a step the counter shows no energy yet.
  if (still_.fault != EnergyFault::stands_still) still_ = {};
  if (!was_still && !still_.usable()) note(EnergyFault::stands_still);
}

EnergyVerdict CheckedCounter::judge_step(const CounterReading& reading, double step_j) const {
  const double over_s = reading.time_s - changed_s_;
  const bool stood_still = over_s > kLongestStepS + traits_.period_s;
  const bool covered = since_change_.covered_s() >= kCoveredShare * over_s;
  return check_energy({.energy_j = step_j,
                       .time_s = over_s,
                       .period_s = traits_.period_s + reading.time_error_s + changed_error_s_,
                       .highest_power_w = traits_.highest_power_w,
                       .readings = stood_still && covered ? readings(since_change_) : std::nullopt});
}

double CheckedCounter::instead_of_step_j(double over_s) const {
  const double covered_s = since_change_.covered_s();
  return over_s * (covered_s > 0 ? since_change_.energy_j() / covered_s : step_power_w_);
}

EnergyVerdict CheckedCounter::add_step(const CounterReading& reading, double step_j) {
  const EnergyVerdict verdict = judge_step(reading, step_j);
  const double over_s = std::max(0.0, reading.time_s - changed_s_);
  if (verdict.usable()) {
    span_counted_j_ += step_j;
    has_moved_ = true;
    if (over_s > 0) step_power_w_ = step_j / over_s;
  } else {
    note(verdict.fault);
  }
  sum_j_ += verdict.usable() && span_verdict_.usable() ? step_j : instead_of_step_j(over_s);
  changed_s_ = reading.time_s;
  changed_error_s_ = reading.time_error_s;
  since_change_ = PowerIntegral(traits_.power_averaging_s);
  since_change_.add(reading.power_w, 0);
  still_ = {};
  judge_span();
  const bool ends_span = !verdict.usable() || changed_s_ - span_start_s_ >= kSpanS;
  if (ends_span) {
    span_start_s_ = changed_s_;
    span_counted_j_ = 0;
    span_ = since_change_;
  }
  return verdict;
}

void CheckedCounter::judge_span() {
  const double span_s = changed_s_ - span_start_s_;
  if (span_s < kShortestSpanS || span_.covered_s() < kCoveredShare * span_s) return;
  const std::optional<IntegratedPower> power = readings(span_);
  if (!power) return;
  const bool was_usable = span_verdict_.usable();
  span_verdict_ = check_energy({.energy_j = span_counted_j_,
                                .time_s = span_s,
                                .period_s = traits_.period_s,
                                .highest_power_w = traits_.highest_power_w,
                                .readings = power});
  if (was_usable && !span_verdict_.usable()) note(span_verdict_.fault);
}

}  // namespace lowgear
