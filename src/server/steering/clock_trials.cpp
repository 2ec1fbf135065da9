#include "server/steering/clock_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "planning/profile/few_clock_fit.h"

namespace lowgear::server {
namespace {

/// An iteration at a trial's clock may take this much longer than its clock explains.
constexpr double kSurprise = 1.1;
/// Time before the first trial in which the plan gets to all ranks, also to one that has missed its begin.
constexpr double kLeadS = 1;
constexpr double kMostIterations = 100'000;

/// No GPU comes near it.
constexpr double kMostSteepness = 20;

/// How many times as long an iteration takes.
double expected_slowdown(int clock_mhz, int full_clock_mhz, double steepness) {
  return std::pow(static_cast<double>(full_clock_mhz) / clock_mhz, steepness);
}

/// Of one iteration at each clock.
double predicted_cost_s(std::span<const int> clocks_mhz, int full_clock_mhz, double full_clock_time_s,
                        double steepness) {
  double cost_s = 0;
  for (const int clock_mhz : clocks_mhz) {
    if (clock_mhz >= full_clock_mhz) continue;
    cost_s += full_clock_time_s * (kSurprise * expected_slowdown(clock_mhz, full_clock_mhz, steepness) - 1);
  }
  return cost_s;
}

/// Iterations at each clock that the options want.
int wanted_iterations(double full_clock_time_s, const TrialOptions& options) {
  const double counted = std::ceil(options.measure_s / full_clock_time_s);
  return settling_iterations(full_clock_time_s, options) +
         static_cast<int>(std::clamp(counted, 1.0, static_cast<double>(options.iterations)));
}

int affordable_iterations(double cost_s, double full_clock_time_s, double left_s, const TrialOptions& options) {
  const int wanted = wanted_iterations(full_clock_time_s, options);
  if (cost_s * wanted <= left_s) return wanted;
  return static_cast<int>(left_s / cost_s);
}

}  // namespace

TrialBudget::TrialBudget(double allowance_s, double steepness)
    : allowance_s_(allowance_s), known_steepness_(std::clamp(steepness, 1.0, kMostSteepness)) {
  if (allowance_s >= 0 && std::isfinite(allowance_s)) return;
  throw InputError(fmt::format("an allowance of {} s for trials: it must be 0 or more and finite", allowance_s));
}

void TrialBudget::spend(double iteration_time_s, double full_clock_time_s) {
  spent_s_ += std::max(0.0, iteration_time_s - full_clock_time_s);
}

void TrialBudget::learn(double clock_share, double slowdown) {
  if (clock_share <= 0 || clock_share >= 1 || slowdown <= 0) return;
  const double steepness = std::min(std::log(slowdown) / -std::log(clock_share), kMostSteepness);
  const auto [known, is_new] = steepness_.try_emplace(clock_share, steepness);
  if (!is_new) known->second = std::min(known->second, steepness);
}

double TrialBudget::steepness() const {
  double most = 0;
  double second = 0;
  for (const auto& [share, steepness] : steepness_) {
    second = std::max(second, std::min(most, steepness));
    most = std::max(most, steepness);
  }
  return std::max(known_steepness_, second);
}

/// The last of them may count for more than a half.
int settling_iterations(double full_clock_time_s, const TrialOptions& options) {
  const double settling = std::max(0.0, std::ceil(options.settle_s / full_clock_time_s - 0.5));
  return options.settle_iterations + static_cast<int>(std::min(settling, kMostIterations));
}

double expected_cost_s(std::span<const plan::ClockTrial> trials, std::int64_t iteration, int full_clock_mhz,
                       double full_clock_time_s, double steepness) {
  double cost_s = 0;
  for (const plan::ClockTrial& trial : trials) {
    const std::int64_t first = std::max(iteration, trial.first_iteration);
    if (first >= trial.end_iteration() || trial.clock_mhz >= full_clock_mhz) continue;
    cost_s += static_cast<double>(trial.end_iteration() - first) * full_clock_time_s *
              (expected_slowdown(trial.clock_mhz, full_clock_mhz, steepness) - 1);
  }
  return cost_s;
}

std::vector<plan::ClockTrial> plan_trials(std::span<const int> clocks_mhz, int full_clock_mhz, double full_clock_time_s,
                                          double left_s, const TrialOptions& options) {
  const double cost_s = predicted_cost_s(clocks_mhz, full_clock_mhz, full_clock_time_s, options.steepness);
  const int iterations = affordable_iterations(cost_s, full_clock_time_s, left_s, options);
  std::vector<plan::ClockTrial> trials;
  if (iterations <= settling_iterations(full_clock_time_s, options)) return trials;
  const double lead = std::min(std::ceil(kLeadS / full_clock_time_s), kMostIterations);
  std::int64_t next = std::max<std::int64_t>(iterations, static_cast<std::int64_t>(lead));
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
    const double cost_s = predicted_cost_s(clocks_mhz, full_clock_mhz, full_clock_time_s, options.steepness);
    return affordable_iterations(cost_s, full_clock_time_s, left_s, options) >
           settling_iterations(full_clock_time_s, options);
  };
  std::vector<int> clocks_mhz = profile::choose_clocks(supported_mhz, lowest_mhz, highest_mhz, count);
  for (int fewer = count - 1; fewer >= profile::kMinMeasuredClocks && !is_affordable(clocks_mhz); --fewer) {
    clocks_mhz = profile::choose_clocks(supported_mhz, lowest_mhz, highest_mhz, fewer);
  }
  if (is_affordable(clocks_mhz)) return clocks_mhz;
  for (auto lowest = supported_mhz.rbegin(); lowest != supported_mhz.rend(); ++lowest) {
    if (*lowest <= lowest_mhz) continue;
    const auto in_range = std::ranges::count_if(
        supported_mhz, [&](int clock_mhz) { return clock_mhz >= *lowest && clock_mhz <= highest_mhz; });
    if (in_range < profile::kMinMeasuredClocks) break;
    clocks_mhz = profile::choose_clocks(supported_mhz, *lowest, highest_mhz, profile::kMinMeasuredClocks);
    if (is_affordable(clocks_mhz)) return clocks_mhz;
  }
  return {};
}

}  // namespace lowgear::server
