#pragma once

#include <limits>
#include <optional>
#include <string>

#include "base/core/energy/energy_check.h"

namespace lowgear {

/// Power readings added up over time, with what they leave open.
class PowerIntegral {
 public:
  /// Each reading is the mean power of this time before it: 0.1 s for NVML's instant power, 1 s for its average.
  explicit PowerIntegral(double averaging_s, double highest_power_w = kHighestGpuPowerW)
      : averaging_s_(averaging_s), highest_power_w_(highest_power_w) {}

  /// A reading, `over_s` after the one before it or after the begin. Between two readings power is taken to change
  /// evenly. An empty one leaves its time out, and so does one that cannot be (`why_no_power`).
  void add(std::optional<double> power_w, double over_s);

  [[nodiscard]] double energy_j() const { return energy_j_; }
  [[nodiscard]] double covered_s() const { return covered_s_; }
  [[nodiscard]] std::optional<double> last_power_w() const { return last_power_w_; }
  [[nodiscard]] std::optional<double> peak_power_w() const;

  /// The energy until `rest_s` after the last reading, which holds until then.
  [[nodiscard]] IntegratedPower until(double rest_s) const;
  /// There are enough readings to hold an energy against them.
  [[nodiscard]] bool comparable() const;
  /// Many readings, and all the same: no GPU draws that evenly.
  [[nodiscard]] bool is_stuck() const;
  /// Why the last reading that cannot be could not; empty where all can.
  [[nodiscard]] const std::string& impossible() const { return impossible_; }

 private:
  double averaging_s_;
  double highest_power_w_;
  double energy_j_ = 0;
  double covered_s_ = 0;
  int readings_ = 0;
  std::optional<double> last_power_w_;
  double lowest_w_ = std::numeric_limits<double>::infinity();
  double highest_w_ = -std::numeric_limits<double>::infinity();
  std::string impossible_;
  double squared_changes_j2_ = 0;  ///< of what each change from one reading to the next leaves open
};

/// The whole error of integrated power readings.
[[nodiscard]] double error_j(const IntegratedPower& power);

}  // namespace lowgear
