#include "base/core/energy/power_integral.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lowgear {
namespace {

/// Fewer readings say nothing of what happened between them.
constexpr int kFewestReadings = 4;
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

bool PowerIntegral::is_stuck() const { return readings_ >= kStuckReadings && lowest_w_ == highest_w_; }

double error_j(const IntegratedPower& power) { return kIntegratedPowerError * power.energy_j + power.error_j; }

}  // namespace lowgear
