#include "client/measure/gpu_means.h"

#include <algorithm>

namespace lowgear::client {
namespace {

/// Time that means are taken over: one iteration where that is longer.
constexpr double kMeansS = 5;

/// Mean over time of what is not reported in every iteration.
class TimeMean {
 public:
  void add(double value, double over_s) {
    sum_ += value * over_s;
    time_s_ += over_s;
  }
  [[nodiscard]] std::optional<double> mean() const {
    return time_s_ > 0 ? std::optional(sum_ / time_s_) : std::nullopt;
  }

 private:
  double sum_ = 0;
  double time_s_ = 0;
};

}  // namespace

void GpuMeans::add(const MeasuredIteration& iteration) {
  iterations_.push_back(iteration);
  time_s_ += iteration.time_s;
  while (iterations_.size() > 1 && time_s_ - iterations_.front().time_s >= kMeansS) {
    time_s_ -= iterations_.front().time_s;
    iterations_.pop_front();
  }
}

protocol::GpuNow GpuMeans::now() const {
  protocol::GpuNow now;
  now.temperature_c = temperature_c_;
  TimeMean power;
  TimeMean clock;
  for (const MeasuredIteration& iteration : iterations_) {
    if (iteration.energy_j && iteration.time_s > 0) {
      power.add(*iteration.energy_j / iteration.time_s, iteration.time_s);
    }
    if (iteration.mean_sm_clock_mhz) clock.add(*iteration.mean_sm_clock_mhz, iteration.time_s);
    if (iteration.min_sm_clock_mhz) {
      const double clock_mhz = *iteration.min_sm_clock_mhz;
      now.sm_clock_min_mhz = std::min(now.sm_clock_min_mhz.value_or(clock_mhz), clock_mhz);
    }
    if (iteration.max_sm_clock_mhz) {
      now.sm_clock_max_mhz = std::max<double>(now.sm_clock_max_mhz.value_or(0), *iteration.max_sm_clock_mhz);
    }
  }
  now.power_w = power.mean();
  now.sm_clock_mhz = clock.mean();
  return now;
}

}  // namespace lowgear::client
