#include "hardware/measure/energy_track.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/core/energy/energy_check.h"

namespace lowgear::measure {
namespace {

/// Steps that are looked back on: some seconds of an H100's. Over longer times its clock need not agree with ours.
constexpr std::size_t kRememberedSteps = 64;
/// Steps whose powers say how much the power changes from one to the next.
constexpr std::size_t kRememberedPowers = 10;
/// Periods without a step after which the counter does not tell what is drawn, where that is longer than
/// `kLongestStepS`.
constexpr double kMostPeriodsWithoutStep = 3;

}  // namespace

void EnergyTrack::add(double time_s, double energy_j) {
  if (last_reading_ && energy_j < last_reading_->energy_j) start_over();
  if (last_reading_ && energy_j > last_reading_->energy_j) {
    add_step({.low = last_reading_->time_s, .high = time_s}, energy_j);
  }
  last_reading_ = Reading{.time_s = time_s, .energy_j = energy_j};
}

void EnergyTrack::start_over() {
  const int run = run_ + 1;
  *this = {};
  run_ = run;
}

void EnergyTrack::add_step(Range time_s, double energy_j) {
  // Slow readings miss steps: what they see is the last of them, less than a period ago.
  if (steps_.size() > 1) time_s.low = std::max(time_s.low, time_s.high - period_s_.high);
  const bool is_first = steps_.empty();
  const long passed = is_first ? 0 : periods_since_last(time_s);
  // Over so many periods, those before no longer say when this step was.
  if (passed > static_cast<long>(kRememberedSteps)) steps_.clear();
  steps_.push_back({.index = steps_.empty() ? 0 : steps_.back().index + passed, .time_s = time_s});
  if (steps_.size() > kRememberedSteps) steps_.pop_front();
  narrow_down();
  if (!is_first) {
    powers_w_.push_back((energy_j - last_step_energy_j_) / (static_cast<double>(passed) * period_s_.middle()));
    if (powers_w_.size() > kRememberedPowers) powers_w_.pop_front();
  }
  last_step_energy_j_ = energy_j;
}

/// How many periods a new step is from the last. The fewest that the periods known so far
/// allow; the first two steps are taken for neighbours.
long EnergyTrack::periods_since_last(const Range& time_s) const {
  if (steps_.size() < 2) return 1;
  const double shortest_s = time_s.low - last_step_s_.high;
  const auto fewest = static_cast<long>(std::ceil(shortest_s / period_s_.high));
  return std::max(1L, fewest);
}

/// The periods that agree with every pair of steps.
EnergyTrack::Range EnergyTrack::period_range() const {
  Range period{.low = 0, .high = std::numeric_limits<double>::infinity()};
  for (std::size_t later = 1; later < steps_.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const auto periods = static_cast<double>(steps_[later].index - steps_[earlier].index);
      period.low = std::max(period.low, (steps_[later].time_s.low - steps_[earlier].time_s.high) / periods);
      period.high = std::min(period.high, (steps_[later].time_s.high - steps_[earlier].time_s.low) / periods);
    }
  }
  return period;
}

/// Brings all steps to bear on the time of the last. Steps that are not evenly spaced after all are forgotten.
void EnergyTrack::narrow_down() {
  const Step last = steps_.back();
  if (steps_.size() > 1) {
    period_s_ = period_range();
    Range time_s = last.time_s;
    for (const Step& step : steps_) {
      const auto periods = static_cast<double>(last.index - step.index);
      time_s.low = std::max(time_s.low, step.time_s.low + periods * period_s_.low);
      time_s.high = std::min(time_s.high, step.time_s.high + periods * period_s_.high);
    }
    if (period_s_.low <= period_s_.high && time_s.low <= time_s.high) {
      last_step_s_ = time_s;
      return;
    }
    const Step before = steps_[steps_.size() - 2];
    steps_ = {before, last};
    period_s_ = period_range();
  }
  last_step_s_ = last.time_s;
}

std::optional<double> EnergyTrack::step_period_s() const {
  return ready() ? std::optional(period_s_.middle()) : std::nullopt;
}

double EnergyTrack::power_spread_w() const {
  const auto [least, most] = std::ranges::minmax(powers_w_);
  return most - least;
}

std::optional<EnergyEstimate> EnergyTrack::at(double time_s) const {
  if (!ready()) return std::nullopt;
  const double power_w = powers_w_.back();
  const double longest_s = std::max(kLongestStepS, kMostPeriodsWithoutStep * period_s_.middle());
  if (time_s - last_step_s_.middle() > longest_s) time_s = last_step_s_.middle();
  const double since_step_s = std::max(0.0, time_s - last_step_s_.middle());
  return EnergyEstimate{
      .time_s = time_s,
      .energy_j = last_step_energy_j_ + power_w * since_step_s,
      .uncertainty_j = power_w * last_step_s_.half_width() + power_spread_w() / 2 * since_step_s,
      .run = run_,
  };
}

}  // namespace lowgear::measure
