#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "control/client/measure/covered_time.h"
#include "control/client/measure/unit_log.h"
#include "hardware/measure/gpu_meter.h"

namespace lowgear {

/// What an iteration of this rank took.
struct MeasuredIteration {
  std::uint64_t iteration = 0;
  double time_s = 0;
  double compute_s = 0;            ///< in which a unit ran, without waiting
  std::optional<double> energy_j;  ///< empty: no GPU, or its counter does not tell
  double energy_error_j = 0;       ///< +-, of the counter's steps
  std::optional<double> throttled_power_s;
  std::optional<double> throttled_thermal_s;
  std::optional<double> mean_sm_clock_mhz;  ///< time-weighted
  std::optional<int> min_sm_clock_mhz;      ///< of the readings
  std::optional<int> max_sm_clock_mhz;
};

/// Puts together what the training thread has marked and what the GPU's samples say, both of which come some time after
/// it happened. Has no thread and no clock of its own.
class IterationMeter {
 public:
  /// Without a GPU only times are measured.
  explicit IterationMeter(std::optional<GpuMeter> gpu) : gpu_(std::move(gpu)) {}

  /// A sample of the GPU; in the order in which they were taken. Far too many that wait for `add` of what they belong
  /// to are dropped, the oldest first.
  void add(const GpuSample& sample);
  /// What was marked; in order. Returns the iteration that ended with it.
  std::optional<MeasuredIteration> add(const UnitRecord& record);
  /// Nothing will be added that was marked before: samples until then need not be kept.
  void advance_to(std::uint64_t time_ns);
  /// Units were lost: the iteration under way is not known.
  void lose_iteration() { open_.reset(); }

 private:
  struct Open {
    UnitRecord begin;
    CoveredTime compute;
    std::optional<GpuWindow> window;
  };

  void take_samples(double until_s);
  [[nodiscard]] double not_before_samples(double time_s) const;
  [[nodiscard]] MeasuredIteration measure(const UnitRecord& end) const;

  std::optional<GpuMeter> gpu_;
  std::deque<GpuSample> waiting_;
  double newest_sample_s_ = 0;  ///< of those that the meter has
  std::optional<Open> open_;
};

}  // namespace lowgear
