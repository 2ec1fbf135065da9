#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/measure/unit_log.h"
#include "hardware/measure/gpu_meter.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {

/// Time during which at least one of several stretches lasted: where two overlap it counts once.
class CoveredTime {
 public:
  /// Stretches are added in the order of their ends.
  void add(std::uint64_t begin_ns, std::uint64_t end_ns) {
    while (!apart_.empty() && apart_.back().begin_ns >= begin_ns) {
      covered_ns_ -= apart_.back().end_ns - apart_.back().begin_ns;
      apart_.pop_back();
    }
    if (!apart_.empty() && apart_.back().end_ns >= begin_ns) {
      covered_ns_ += end_ns - apart_.back().end_ns;
      apart_.back().end_ns = end_ns;
      return;
    }
    covered_ns_ += end_ns - begin_ns;
    apart_.push_back({begin_ns, end_ns});
  }
  [[nodiscard]] std::uint64_t covered_ns() const { return covered_ns_; }

 private:
  struct Stretch {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  std::vector<Stretch> apart_;  ///< rising
  std::uint64_t covered_ns_ = 0;
};

/// Time and energy of an iteration of this rank.
struct MeasuredIteration {
  std::uint64_t iteration = 0;
  std::uint64_t begin_ns = 0;  ///< of CLOCK_MONOTONIC
  double time_s = 0;
  double units_s = 0;    ///< from the begin to the end of its last unit; 0: it has none
  double compute_s = 0;  ///< in which a unit ran, without waiting
  /// How long each unit came after the one before it, or after the iteration's begin, in the order of their ends.
  std::vector<double> wait_s;
  std::optional<double> energy_j;        ///< empty: no GPU, or no energy by its counter or power readings
  std::optional<double> energy_error_j;  ///< +-, of the counter's steps, or of the power readings; empty: not known
  bool is_counted = false;               ///< the energy is the counter's, not that of power readings
  std::string energy_problem;            ///< why it is not the counter's, or what contradicts it; may be empty
  std::optional<double> throttled_power_s;
  std::optional<double> throttled_thermal_s;
  std::optional<double> mean_sm_clock_mhz;  ///< time-weighted
  std::optional<int> min_sm_clock_mhz;      ///< of the readings
  std::optional<int> max_sm_clock_mhz;
};

/// Samples on their way from the thread that reads the GPU to the one that drains marks. Safe from any thread.
class SampleQueue {
 public:
  /// Dropped where too many wait.
  void add(const measure::GpuSample& sample);
  [[nodiscard]] std::vector<measure::GpuSample> take();

 private:
  std::mutex mutex_;
  std::vector<measure::GpuSample> samples_;
};

/// Combines the marks of the training thread with the GPU's samples, both of which arrive with a delay. Has no thread
/// and no clock.
class IterationMeter {
 public:
  /// Without a GPU only times are measured.
  explicit IterationMeter(std::optional<measure::GpuMeter> gpu) : gpu_(std::move(gpu)) {}

  /// A sample of the GPU; in the order in which they were taken. Far too many that wait for `add` of what they belong
  /// to are dropped, the oldest first.
  void add(const measure::GpuSample& sample);
  /// Adds a mark, in order. Returns the iteration that it ends.
  std::optional<MeasuredIteration> add(const UnitRecord& record);
  /// Nothing will be added that was marked before: samples until then need not be kept.
  void advance_to(std::uint64_t time_ns);
  /// Units were lost: the iteration under way is not known.
  void lose_iteration() { open_.reset(); }

 private:
  struct Open {
    UnitRecord begin;
    CoveredTime compute;
    std::vector<double> wait_s;
    std::uint64_t free_ns = 0;  ///< since when no unit has run
    std::optional<measure::GpuWindow> window;
  };

  static void add_unit(const UnitRecord& unit, Open& open);
  void take_samples(double until_s);
  [[nodiscard]] double not_before_samples(double time_s) const;
  [[nodiscard]] MeasuredIteration measure(const UnitRecord& end) const;

  std::optional<measure::GpuMeter> gpu_;
  std::deque<measure::GpuSample> waiting_;
  double newest_sample_s_ = 0;  ///< of the meter's samples
  std::optional<Open> open_;
};

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
