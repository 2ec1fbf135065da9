#pragma once

#include <deque>
#include <optional>

#include "control/client/measure/iteration_meter.h"

namespace lowgear {

/// How a GPU did in the last iterations. What it does not report is empty.
struct GpuAverages {
  std::optional<double> power_w;             ///< energy over time
  std::optional<double> sm_clock_mhz;        ///< time-weighted
  std::optional<int> sm_clock_min_mhz = {};  ///< of its readings
  std::optional<int> sm_clock_max_mhz = {};
  std::optional<int> temperature_c = {};  ///< the newest reading
};

/// Means of a GPU over its last iterations. A single reading would mislead: it is taken when an iteration ends, while
/// the GPU waits for others at the highest clock.
class GpuMeans {
 public:
  void add(const MeasuredIteration& iteration);
  void set_temperature(std::optional<int> temperature_c) { temperature_c_ = temperature_c; }
  [[nodiscard]] GpuAverages now() const;

 private:
  std::deque<MeasuredIteration> iterations_;  ///< the last ones, of kMeansS together
  double time_s_ = 0;
  std::optional<int> temperature_c_;
};

}  // namespace lowgear
