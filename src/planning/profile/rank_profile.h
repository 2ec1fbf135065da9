#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/recorded_profile.h"

namespace lowgear::profile {

/// Mean and spread of many values, one at a time (Welford, Technometrics 4, 1962).
class RunningMean {
 public:
  void add(double value) {
    ++count_;
    const double change = value - mean_;
    mean_ += change / static_cast<double>(count_);
    squares_ += change * (value - mean_);
  }
  [[nodiscard]] long long count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double deviation() const {
    return count_ > 1 ? std::sqrt(squares_ / static_cast<double>(count_ - 1)) : 0;
  }
  [[nodiscard]] double error() const { return count_ > 0 ? deviation() / std::sqrt(static_cast<double>(count_)) : 0; }

 private:
  long long count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

/// Samples during the units of a cell that report whether the GPU was held back.
struct ThrottleCount {
  long long reported = 0;
  long long throttled = 0;
};

/// Samples during the units of a cell that report the SM clock.
struct ClockCount {
  long long reported = 0;
  double sum_mhz = 0;
};

/// One cell of one rank.
struct RankCell {
  RunningMean times_s;
  ThrottleCount throttle;
  ClockCount clock;
  CellPower power;
};

struct RankProfile {
  std::map<CellKey, RankCell> cells;
  std::set<int> stages;
  std::optional<CellPower> blocking;
  std::map<int, CellPower> blocking_by_clock;  ///< empty where it is not known by clock
  double energy_error_share = 0;               ///< of all its energies at once
  std::string gpu_name;
};

/// Kinds whose units may be too short to measure.
[[nodiscard]] bool is_half_of_a_backward(OpKind kind);

/// The parts of one rank's recording without their first iterations; parts with nothing left are dropped. Throws
/// InputError where no part is left.
[[nodiscard]] std::vector<Recording> without_warm_up(std::span<const Recording> parts, int skipped_iterations);

/// Times and powers of one rank, from the parts of its recording (`fit_energy`). The time of units that are too short
/// to measure counts as waiting. Energies on another clock than the units' are shifted, with a warning. Throws
/// InputError.
[[nodiscard]] RankProfile profile_rank(std::vector<Recording> parts, const ProfilingOptions& options,
                                       std::vector<std::string>& warnings);

}  // namespace lowgear::profile
