#include "adapt/clock_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "profile/few_clock_fit.h"

namespace lowgear {
namespace {

/// An iteration at a trial's clock may take this much longer than its clock explains.
constexpr double kSurprise = 1.1;

/// Of one iteration at each clock.
double predicted_cost_s(std::span<const int> clocks_mhz, int full_clock_mhz, double full_clock_time_s) {
  double cost_s = 0;
  for (const int clock_mhz : clocks_mhz) {
    if (clock_mhz >= full_clock_mhz) continue;
    cost_s += full_clock_time_s * (kSurprise * full_clock_mhz / clock_mhz - 1);
  }
  return cost_s;
}

/// Iterations at each clock that the options want.
int wanted_iterations(double full_clock_time_s, const TrialOptions& options) {
  const double wanted = std::ceil((options.settle_s + options.measure_s) / full_clock_time_s);
  return options.settle_iterations + static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(options.iterations)));
}

int affordable_iterations(double cost_s, double full_clock_time_s, double left_s, const TrialOptions& options) {
  const int wanted = wanted_iterations(full_clock_time_s, options);
  if (cost_s * wanted <= left_s) return wanted;
  return static_cast<int>(left_s / cost_s);
}

}  // namespace

TrialBudget::TrialBudget(double allowance_s) : allowance_s_(allowance_s) {
  if (allowance_s >= 0 && std::isfinite(allowance_s)) return;
  throw InputError(fmt::format("an allowance of {} s for trials: it must be 0 or more and finite", allowance_s));
}

void TrialBudget::spend(double iteration_time_s, double full_clock_time_s) {
  spent_s_ += std::max(0.0, iteration_time_s - full_clock_time_s);
}

std::vector<ClockTrial> plan_trials(std::span<const int> clocks_mhz, int full_clock_mhz, double full_clock_time_s,
                                    double left_s, const TrialOptions& options) {
  const double cost_s = predicted_cost_s(clocks_mhz, full_clock_mhz, full_clock_time_s);
  const int iterations = affordable_iterations(cost_s, full_clock_time_s, left_s, options);
  std::vector<ClockTrial> trials;
  if (iterations <= options.settle_iterations) return trials;
  std::int64_t next = iterations;
  for (const int clock_mhz : clocks_mhz) {
    if (clock_mhz >= full_clock_mhz) continue;
    trials.push_back({.first_iteration = next, .iterations = iterations, .clock_mhz = clock_mhz});
    next = trials.back().end_iteration() + iterations;
  }
  return trials;
}

std::vector<int> affordable_clocks(std::span<const int> supported_mhz, int lowest_mhz, int highest_mhz, int count,
                                   double full_clock_time_s, double left_s, const TrialOptions& options) {
  const int full_clock_mhz = supported_mhz.front();
  const auto is_affordable = [&](const std::vector<int>& clocks_mhz) {
    const double cost_s = predicted_cost_s(clocks_mhz, full_clock_mhz, full_clock_time_s);
    return affordable_iterations(cost_s, full_clock_time_s, left_s, options) > options.settle_iterations;
  };
  std::vector<int> clocks_mhz = choose_clocks(supported_mhz, lowest_mhz, highest_mhz, count);
  for (int fewer = count - 1; fewer >= kMinMeasuredClocks && !is_affordable(clocks_mhz); --fewer) {
    clocks_mhz = choose_clocks(supported_mhz, lowest_mhz, highest_mhz, fewer);
  }
  if (is_affordable(clocks_mhz)) return clocks_mhz;
  for (auto lowest = supported_mhz.rbegin(); lowest != supported_mhz.rend(); ++lowest) {
    if (*lowest <= lowest_mhz) continue;
    const auto in_range = std::ranges::count_if(
        supported_mhz, [&](int clock_mhz) { return clock_mhz >= *lowest && clock_mhz <= highest_mhz; });
    if (in_range < kMinMeasuredClocks) break;
    clocks_mhz = choose_clocks(supported_mhz, *lowest, highest_mhz, kMinMeasuredClocks);
    if (is_affordable(clocks_mhz)) return clocks_mhz;
  }
  return {};
}

}  // namespace lowgear
