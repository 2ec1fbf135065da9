#pragma once

#include <array>
#include <deque>
#include <numeric>
#include <optional>

#include "base/core/energy/energy_check.h"

namespace lowgear {

/// Known properties of a counter.
struct CounterTraits {
  double period_s = 0.1;  ///< between its steps
  double highest_power_w = kHighestGpuPowerW;
  double lasting_power_w = kHighestGpuPowerW;  ///< for longer than kOvershootS
  double lowest_power_w = kLowestGpuPowerW;
  double power_averaging_s = 0.1;  ///< of the power readings next to it, see PowerIntegral
  /// The power readings are of the same parts as the counter. A GH200's counter covers its CPU, too.
  bool compares_power = true;
};

/// A reading of a counter, and of power at that time where there is one.
struct CounterReading {
  double time_s = 0;
  double time_error_s = 0;  ///< how much earlier or later the counter may have been read
  std::optional<double> energy_j;
  std::optional<double> power_w;
};

/// Follows an energy counter and judges whether each step is possible. Has no clock: readings come in order.
///
/// Sets an impossible step aside and replaces it by the power readings or, without any, by the power of the steps
/// before it. So a difference of two `energy_j` is the energy drawn between them.
class CheckedCounter {
 public:
  explicit CheckedCounter(CounterTraits traits);

  /// Judges the step that this reading shows: `falls`, `too_high`, or `contradicts` after a time in which the counter
  /// stood still. No fault without a step, or with a good one.
  [[nodiscard]] EnergyVerdict add(const CounterReading& reading);

  /// The counter's current fault: it stands still, contradicts the power readings of the last seconds, or shows more
  /// than the GPU can draw in them. A fall or a jump ends with its step.
  [[nodiscard]] const EnergyVerdict& state() const {
    if (!still_.usable()) return still_;
    return recent_verdict_.usable() ? span_verdict_ : recent_verdict_;
  }
  /// The counter has shown a possible step.
  [[nodiscard]] bool has_moved() const { return has_moved_; }
  /// Energy since the first reading, without the steps that were set aside. Empty before the first reading.
  [[nodiscard]] std::optional<double> energy_j() const;
  /// Time of the last change of the counter's value.
  [[nodiscard]] double last_change_s() const { return changed_s_; }
  /// Number of times that the counter was set aside for this reason: steps, and times in which it stood still or
  /// contradicted the power readings.
  [[nodiscard]] long set_aside(EnergyFault fault) const { return set_aside_[static_cast<std::size_t>(fault)]; }
  /// For any reason.
  [[nodiscard]] long set_aside() const { return std::accumulate(set_aside_.begin(), set_aside_.end(), 0L); }

 private:
  [[nodiscard]] EnergyVerdict judge_step(const CounterReading& reading, double step_j) const;
  void look_for_standstill(const CounterReading& reading);
  [[nodiscard]] EnergyVerdict add_step(const CounterReading& reading, double step_j);
  void judge_span();
  void judge_recent();
  /// `period_s`: possible error of the time.
  [[nodiscard]] StatedEnergy stated(double energy_j, double time_s, double period_s,
                                    std::optional<IntegratedPower> readings) const;
  void judge(EnergyVerdict& verdict, double energy_j, double time_s, double time_error_s,
             const PowerIntegral& power) const;
  void note(EnergyFault fault) { ++set_aside_[static_cast<std::size_t>(fault)]; }
  [[nodiscard]] double instead_of_step_j(double over_s) const;
  [[nodiscard]] std::optional<IntegratedPower> readings(const PowerIntegral& power) const;

  CounterTraits traits_;
  std::optional<double> last_j_;  ///< as the counter showed it
  double last_time_s_ = 0;        ///< of the last reading, with energy or without
  double changed_s_ = 0;
  double changed_error_s_ = 0;
  double sum_j_ = 0;  ///< `energy_j` when the counter last changed
  bool has_moved_ = false;
  PowerIntegral since_change_;
  double step_power_w_ = 0;  ///< of the last good step
  EnergyVerdict still_;
  double span_start_s_ = 0;
  double span_counted_j_ = 0;
  PowerIntegral span_;
  EnergyVerdict span_verdict_;
  /// A reading of the last seconds.
  struct Recent {
    CounterReading reading;
    double over_s = 0;     ///< since the one before
    double counted_j = 0;  ///< by the good steps until then
    bool is_step = false;
  };
  std::deque<Recent> recent_;
  double counted_j_ = 0;
  EnergyVerdict recent_verdict_;
  std::array<long, kEnergyFaultCount> set_aside_{};
};

}  // namespace lowgear
