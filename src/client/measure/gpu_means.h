#pragma once

#include <deque>
#include <optional>

#include "client/measure/iteration_meter.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {

/// Means of a GPU over its last iterations. A single reading would be misleading: it is taken at the end of an
/// iteration, while the GPU waits for others at the highest clock.
class GpuMeans {
 public:
  void add(const MeasuredIteration& iteration);
  void set_temperature(std::optional<int> temperature_c) { temperature_c_ = temperature_c; }
  [[nodiscard]] protocol::GpuNow now() const;

 private:
  std::deque<MeasuredIteration> iterations_;  ///< the last ones, of kMeansS together
  double time_s_ = 0;
  std::optional<int> temperature_c_;
};

}  // namespace lowgear::client
