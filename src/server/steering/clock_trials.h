#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planning/plan/plan_json.h"

namespace lowgear::server {

/// Settings of trials: clocks are tried in single iterations of a job that trains on.
struct TrialOptions {
  int iterations = 5;         ///< counted at each clock, at most
  int settle_iterations = 0;  ///< before those, after each change
  double settle_s = 0.1;      ///< after each change, not counted
  double measure_s = 1;       ///< counted time at each clock that is enough: ten steps of an H100's energy counter
  double steepness = 1;       ///< iterations are expected to take as the clock to the power of minus this; 1 or more
};

/// The allowance for a job's trials: time beyond that of the same iterations at full clocks.
class TrialBudget {
 public:
  TrialBudget() = default;
  /// In seconds. Throws InputError unless it is 0 or more and finite. `steepness` as known before.
  explicit TrialBudget(double allowance_s, double steepness = 1);

  /// Counts an iteration at a trial's clock; one that is faster than at full clocks costs nothing.
  void spend(double iteration_time_s, double full_clock_time_s);
  /// An iteration all at a trial's clock (a share of the full one) took `slowdown` times as long as at full clocks.
  void learn(double clock_share, double slowdown);
  /// That of TrialOptions, as two clocks have shown it: one alone may be a hiccup.
  [[nodiscard]] double steepness() const;
  [[nodiscard]] double spent_s() const { return spent_s_; }
  [[nodiscard]] double left_s() const { return allowance_s_ > spent_s_ ? allowance_s_ - spent_s_ : 0; }
  [[nodiscard]] bool is_spent() const { return spent_s_ >= allowance_s_; }

 private:
  double allowance_s_ = 0;
  double spent_s_ = 0;
  double known_steepness_ = 1;
  std::map<double, double> steepness_;  ///< by clock share: of the iteration that was least slow
};

/// Iterations of a trial that do not count, in which the clock settles.
[[nodiscard]] int settling_iterations(double full_clock_time_s, const TrialOptions& options);

/// Expected cost of the trials' iterations from `iteration` on, without a margin.
[[nodiscard]] double expected_cost_s(std::span<const plan::ClockTrial> trials, std::int64_t iteration,
                                     int full_clock_mhz, double full_clock_time_s, double steepness);

/// Iterations at `clocks_mhz`, in that order, each between as many at full clocks; the first is iteration 0. As many
/// at each clock as the options want and `left_s` affords, at the latter's most: iterations take as their steepness
/// says, and a tenth longer. Empty when not even one iteration at each can be afforded. The full clock itself
/// needs no trial and is left out. `full_clock_time_s` is an iteration's time at `full_clock_mhz`.
[[nodiscard]] std::vector<plan::ClockTrial> plan_trials(std::span<const int> clocks_mhz, int full_clock_mhz,
                                                        double full_clock_time_s, double left_s,
                                                        const TrialOptions& options);

/// Which clocks to try out first: `count` of the supported ones (highest first) from `lowest_mhz` to `highest_mhz`, as
/// `choose_clocks` spaces them; fewer, and then from a higher clock on, where `left_s` affords no trial of them. Empty
/// when it does not even afford kMinMeasuredClocks. Throws InputError as `choose_clocks` does.
[[nodiscard]] std::vector<int> affordable_clocks(std::span<const int> supported_mhz, int lowest_mhz, int highest_mhz,
                                                 int count, double full_clock_time_s, double left_s,
                                                 const TrialOptions& options);

}  // namespace lowgear::server
