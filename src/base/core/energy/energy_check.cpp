#include "base/core/energy/energy_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/core/numbers/number.h"

namespace lowgear {
namespace {

/// With enough digits to compare two of them.
std::string joules(double energy_j) { return fmt::format("{:.{}f} J", energy_j, std::abs(energy_j) < 100 ? 2 : 0); }

std::string seconds(double time_s) {
  return time_s < 1000 ? fmt::format("{:.3g} s", time_s) : fmt::format("{:.0f} s", time_s);
}

std::string energy_over_time(double energy_j, double time_s) { return joules(energy_j) + " in " + seconds(time_s); }

/// The most that can be drawn in this time: the limit, and its overshoot at the begin.
double highest_energy_j(const StatedEnergy& stated, double over_s) {
  const double overshoot_s = std::min(over_s, kOvershootS);
  return stated.highest_power_w * overshoot_s +
         std::min(stated.highest_power_w, stated.lasting_power_w) * (over_s - overshoot_s);
}

EnergyVerdict too_high(const StatedEnergy& stated) {
  const std::string mean =
      stated.time_s > 0 ? fmt::format(", {:.0f} W on average", stated.energy_j / stated.time_s) : "";
  const double most_w =
      stated.time_s > kOvershootS ? std::min(stated.highest_power_w, stated.lasting_power_w) : stated.highest_power_w;
  return {.fault = EnergyFault::too_high,
          .reason = fmt::format("shows {}{}, and at most {:.0f} W are possible",
                                energy_over_time(stated.energy_j, stated.time_s), mean, most_w)};
}

EnergyVerdict stands_still(const StatedEnergy& stated) {
  std::string drawn;
  if (stated.readings) {
    drawn = fmt::format(", and the power readings {:.0f} W on average", stated.readings->energy_j / stated.time_s);
  }
  const std::string shown = stated.energy_j > 0 ? fmt::format("shows {}, {:.2g} W on average",
                                                              energy_over_time(stated.energy_j, stated.time_s),
                                                              stated.energy_j / stated.time_s)
                                                : "shows no energy for " + seconds(stated.time_s);
  return {.fault = EnergyFault::stands_still, .reason = shown + drawn};
}

/// Against the power readings: the share by which the two differ, once their errors are taken off.
EnergyVerdict compare_with_readings(const StatedEnergy& stated) {
  const double readings_j = stated.readings->energy_j;
  const double mean_power_w = std::max(stated.energy_j, readings_j) / stated.time_s;
  const double errors_j = stated.error_j + stated.readings->error_j + mean_power_w * stated.period_s;
  const double beyond_j = std::abs(stated.energy_j - readings_j) - errors_j;
  const double share = beyond_j / std::max(stated.energy_j, readings_j);
  // Written so that a figure which is not a number is a contradiction.
  if (share <= kNotableDifference) return {};
  const std::string difference =
      readings_j > 0 ? fmt::format(": {:+.0f} %", change_pct(readings_j, stated.energy_j)) : "";
  return {.fault = share <= kContradiction ? EnergyFault::differs : EnergyFault::contradicts,
          .reason = fmt::format("shows {}, and the power readings make {}{}",
                                energy_over_time(stated.energy_j, stated.time_s), joules(readings_j), difference)};
}

}  // namespace

std::string_view name(EnergyFault fault) {
  static constexpr std::array<std::string_view, kEnergyFaultCount> kNames = {"none",         "differs", "contradicts",
                                                                             "stands_still", "falls",   "too_high"};
  return kNames.at(static_cast<std::size_t>(fault));
}

double highest_gpu_power_w(std::optional<double> power_limit_w) {
  return power_limit_w && *power_limit_w > 0 ? kPowerLimitOvershoot * *power_limit_w : kHighestGpuPowerW;
}

double lasting_gpu_power_w(std::optional<double> power_limit_w) {
  return power_limit_w && *power_limit_w > 0 ? kLastingOvershoot * *power_limit_w : kHighestGpuPowerW;
}

std::string why_no_power(double power_w, double highest_power_w) {
  if (!(power_w >= kLowestGpuPowerW)) {
    return fmt::format("is {:.3g} W, and a GPU that answers draws more than {:g} W", power_w, kLowestGpuPowerW);
  }
  if (power_w <= highest_power_w) return {};
  return fmt::format("is {:.0f} W, and at most {:.0f} W are possible", power_w, highest_power_w);
}

EnergyVerdict check_energy(const StatedEnergy& stated) {
  if (!(stated.energy_j >= 0)) {
    return {.fault = EnergyFault::falls, .reason = "shows " + energy_over_time(stated.energy_j, stated.time_s)};
  }
  const double time_s = std::max(0.0, stated.time_s);
  if (!(stated.energy_j - stated.error_j <= highest_energy_j(stated, time_s + stated.period_s))) {
    return too_high(stated);
  }
  const bool are_possible =
      stated.readings && time_s > 0 && why_no_power(stated.readings->energy_j / time_s, stated.highest_power_w).empty();
  const bool draws_nothing = stated.energy_j == 0 || stated.energy_j + stated.error_j < stated.lowest_power_w * time_s;
  if (draws_nothing && time_s > kLongestStepS + stated.period_s) return stands_still(stated);
  return are_possible ? compare_with_readings(stated) : EnergyVerdict{};
}

void EnergyRun::Span::add(const StatedEnergy& stated) {
  sum.energy_j += stated.energy_j;
  sum.time_s += stated.time_s;
  sum.error_j += stated.error_j;
  sum.period_s = stated.period_s;
  sum.highest_power_w = stated.highest_power_w;
  sum.lasting_power_w = stated.lasting_power_w;
  sum.lowest_power_w = stated.lowest_power_w;
}

EnergyRun::Judged EnergyRun::add(std::int64_t number, const StatedEnergy& stated) {
  const double left_out = last_ ? static_cast<double>(std::max<std::int64_t>(0, number - *last_ - 1)) : 0;
  last_ = number;
  const double lasting_w = std::min(stated.highest_power_w, stated.lasting_power_w);
  const double step_j = stated.highest_power_w * stated.period_s + (stated.highest_power_w - lasting_w) * kOvershootS;
  excess_j_ = std::max(0.0, excess_j_ - lasting_w * left_out * stated.time_s);
  if (excess_j_ <= 0) run_ = {.first = number, .sum = {}};
  run_.add(stated);
  const double excess_j = excess_j_ + stated.energy_j - stated.error_j - lasting_w * stated.time_s;
  // The step stays used up. What is beyond it is not held against the intervals that come next.
  excess_j_ = std::clamp(excess_j, 0.0, step_j);
  if (excess_j > step_j) return {.verdict = check_energy(run_.sum), .first = run_.first};

  const bool draws = stated.energy_j > 0 && stated.energy_j + stated.error_j >= stated.lowest_power_w * stated.time_s;
  if (draws) {
    still_ = {};
    return {.verdict = check_energy(stated), .first = number};
  }
  if (still_.sum.time_s <= 0) still_.first = number;
  still_.add(stated);
  return {.verdict = check_energy(still_.sum), .first = still_.first};
}

namespace {

/// Fewer readings say nothing of what happened between them.
constexpr int kFewestReadings = 4;
/// The gap between readings that a moment lies in, on average, as a multiple of the mean gap. It is 1 for equal gaps
/// and 2 for readings at random.
constexpr double kMostUneven = 1.25;
/// As many as 2 s have, of an H100 that renews its readings every 0.1 s.
constexpr int kStuckReadings = 40;

}  // namespace

void PowerIntegral::add(std::optional<double> power_w, double over_s) {
  if (power_w) {
    if (std::string why = why_no_power(*power_w, highest_power_w_); !why.empty()) {
      impossible_ = std::move(why);
      power_w.reset();
    }
  }
  if (power_w) {
    const double before_w = last_power_w_.value_or(*power_w);
    const double change_j = (*power_w - before_w) * over_s;
    energy_j_ += (before_w + *power_w) / 2 * over_s;
    // Power may have changed at any time between two readings: two standard deviations of that.
    squared_changes_j2_ += change_j * change_j / 3;
    covered_s_ += over_s;
    if (over_s > 0) ++gaps_;
    squared_gaps_s2_ += over_s * over_s;
    lowest_w_ = std::min(lowest_w_, *power_w);
    highest_w_ = std::max(highest_w_, *power_w);
    ++readings_;
  }
  last_power_w_ = power_w;
}

std::optional<double> PowerIntegral::peak_power_w() const {
  return readings_ > 0 ? std::optional(highest_w_) : std::nullopt;
}

IntegratedPower PowerIntegral::until(double rest_s) const {
  if (readings_ == 0) return {};
  // A reading lags behind by its averaging time: at the edges that is worth the largest change of power there was.
  const double edges_j = (highest_w_ - lowest_w_) * averaging_s_ + std::sqrt(squared_changes_j2_);
  // Readings further apart than that miss what happens between them, as any sample of so many does.
  const double apart_s = covered_s_ / readings_;
  const double missed_share = apart_s > averaging_s_ ? 1 - averaging_s_ / apart_s : 0;
  const double energy_j = energy_j_ + last_power_w_.value_or(0) * std::max(0.0, rest_s);
  return {.energy_j = energy_j, .error_j = edges_j + 2 * missed_share * energy_j / std::sqrt(readings_)};
}

bool PowerIntegral::comparable() const { return readings_ >= kFewestReadings; }

bool PowerIntegral::is_even() const {
  if (gaps_ == 0) return false;
  const double gap_of_a_moment_s = squared_gaps_s2_ / covered_s_;  // the mean gap, where all are alike
  return gap_of_a_moment_s <= std::max(averaging_s_, kMostUneven * covered_s_ / gaps_);
}

bool PowerIntegral::is_stuck() const { return readings_ >= kStuckReadings && lowest_w_ == highest_w_; }

double error_j(const IntegratedPower& power) { return kIntegratedPowerError * power.energy_j + power.error_j; }

}  // namespace lowgear
