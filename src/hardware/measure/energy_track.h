#pragma once

#include <deque>
#include <optional>

namespace lowgear::measure {

/// An energy with its uncertainty.
struct EnergyEstimate {
  double time_s = 0;  ///< of the reading
  double energy_j = 0;
  double uncertainty_j = 0;  ///< half the width of what the readings leave open
  int run = 0;               ///< how often the counter had started over: energies of different runs do not compare
};

/// Follows an energy counter that advances in even steps (every 100 ms on an H100), so that the energy at any moment
/// can be read more finely than the counter.
///
/// A step that is seen between two readings happened somewhere between them. As steps are evenly spaced, all recent
/// ones together narrow down the time of the last to some milliseconds, when readings fall at changing phases of the
/// steps. Since then, energy is taken to grow with the power of the last whole step, for a few periods. That is right
/// for a load that begins or ends with a window: the power just before a window's edge is the power up to it.
class EnergyTrack {
 public:
  /// A reading of the counter, taken at `time_s`. Times rise; a reading that is missing makes for a longer step. A
  /// counter that falls (the driver was loaded anew) starts the track over.
  void add(double time_s, double energy_j);
  /// What was added does not compare with what will be.
  void start_over();

  /// Two steps have been seen, so that `at` has something to go by.
  [[nodiscard]] bool ready() const { return !powers_w_.empty(); }
  /// Energy at `time_s`, which is not before the last reading; that of the last step where no step has come for too
  /// long. Empty before `ready`.
  [[nodiscard]] std::optional<EnergyEstimate> at(double time_s) const;
  /// Time between steps; empty before `ready`.
  [[nodiscard]] std::optional<double> step_period_s() const;

 private:
  struct Reading {
    double time_s = 0;
    double energy_j = 0;
  };
  /// A range that holds a value.
  struct Range {
    double low = 0;
    double high = 0;
    [[nodiscard]] double middle() const { return (low + high) / 2; }
    [[nodiscard]] double half_width() const { return (high - low) / 2; }
  };
  /// The counter's step number `index` happened within `time_s`.
  struct Step {
    long index = 0;
    Range time_s;
  };

  void add_step(Range time_s, double energy_j);
  [[nodiscard]] double power_spread_w() const;
  [[nodiscard]] long periods_since_last(const Range& time_s) const;
  [[nodiscard]] Range period_range() const;
  void narrow_down();

  int run_ = 0;
  std::optional<Reading> last_reading_;
  std::deque<Step> steps_;  ///< the recent ones, as the readings bracketed them
  Range period_s_;          ///< between steps
  Range last_step_s_;       ///< time of the last step, as all of them bracket it
  double last_step_energy_j_ = 0;
  std::deque<double> powers_w_;  ///< of the last steps, oldest first
};

}  // namespace lowgear::measure
