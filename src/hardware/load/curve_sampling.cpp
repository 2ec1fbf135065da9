#include "hardware/load/curve_sampling.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/core/monotonic_clock.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::load {
namespace {

/// Means of readings that the meter's windows do not keep.
class Readings {
 public:
  void add(const measure::GpuSample& sample) {
    const std::scoped_lock lock(mutex_);
    if (sample.temperature_c) temperatures_.add(*sample.temperature_c);
    if (sample.memory_clock_mhz) memory_clocks_.add(*sample.memory_clock_mhz);
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    temperatures_ = {};
    memory_clocks_ = {};
  }
  [[nodiscard]] std::optional<double> temperature_c() const {
    const std::scoped_lock lock(mutex_);
    return temperatures_.mean();
  }
  [[nodiscard]] std::optional<double> memory_clock_mhz() const {
    const std::scoped_lock lock(mutex_);
    return memory_clocks_.mean();
  }

 private:
  struct Mean {
    double sum = 0;
    int count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
    [[nodiscard]] std::optional<double> mean() const { return count > 0 ? std::optional(sum / count) : std::nullopt; }
  };

  mutable std::mutex mutex_;
  Mean temperatures_;
  Mean memory_clocks_;
};

void sleep_for_s(double time_s) { std::this_thread::sleep_for(std::chrono::duration<double>(time_s)); }

class CurveSampler {
 public:
  explicit CurveSampler(const CurveRun& run)
      : run_(&run),
        begin_s_(monotonic_s()),
        meter_(run.system, {&run.gpu},
               {.edge_power = measure::EdgePower::recent,
                .observer = [this](std::size_t /*gpu*/, const measure::GpuSample& sample) { readings_.add(sample); }}) {
  }

  [[nodiscard]] std::optional<curve::CurveSample> sample(const curve::CurveLoad& load) {
    run_->load.start(load);
    sleep_for_s(run_->settle_s);
    readings_.clear();
    const double from_s = monotonic_s();
    const LoadWork from = run_->load.work();
    const measure::EnergyMeter::WindowId window = meter_.begin("curve");
    sleep_for_s(run_->window_s);
    const measure::GpuMeasurement measured = meter_.end(window).gpus.front();
    const LoadWork to = run_->load.work();
    const double share = measured.time_s / (monotonic_s() - from_s);
    run_->load.stop();
    if (!measured.covers_all() || !measured.mean_sm_clock_mhz) return std::nullopt;
    return curve::CurveSample{.load = load,
                              .begin_s = from_s - begin_s_,
                              .time_s = measured.time_s,
                              .energy_j = *measured.energy_j,
                              .energy_error_j = measured.energy_uncertainty_j.value_or(0),
                              .clock_mhz = *measured.mean_sm_clock_mhz,
                              .lowest_clock_mhz = static_cast<double>(measured.min_sm_clock_mhz.value_or(0)),
                              .highest_clock_mhz = static_cast<double>(measured.max_sm_clock_mhz.value_or(0)),
                              .memory_clock_mhz = readings_.memory_clock_mhz().value_or(0),
                              .temperature_c = readings_.temperature_c().value_or(0),
                              .capped_s = measured.power_capped_s.value_or(0),
                              .thermal_s = measured.thermally_throttled_s.value_or(0),
                              .limit_w = limit_w(),
                              .operations = (to.operations - from.operations) * share,
                              .bytes = (to.bytes - from.bytes) * share,
                              .cache_bytes = (to.cache_bytes - from.cache_bytes) * share};
  }

 private:
  [[nodiscard]] double limit_w() const {
    return works(run_->gpu, gpu::GpuFeature::power_limits) ? run_->gpu.power_limits().enforced_w : 0;
  }

  const CurveRun* run_;
  double begin_s_;
  Readings readings_;
  measure::EnergyMeter meter_;  ///< last: its thread uses the above
};

}  // namespace

std::vector<curve::CurveSample> sample_curve(const CurveRun& run, std::span<const curve::CurveLoad> plan) {
  for (const gpu::GpuFeature feature : {gpu::GpuFeature::energy_counter, gpu::GpuFeature::sm_clock}) {
    if (works(run.gpu, feature)) continue;
    const gpu::GpuFeatureStatus& status = run.gpu.features()[static_cast<std::size_t>(feature)];
    throw gpu::GpuError(status.code, fmt::format("{}: a curve needs its {}: {}", run.gpu.identity().name,
                                                 gpu::name(feature), status.reason));
  }
  CurveSampler sampler(run);
  std::vector<curve::CurveSample> samples;
  for (const curve::CurveLoad& load : plan) {
    if (run.asked_to_end()) break;
    const std::optional<curve::CurveSample> sample = sampler.sample(load);
    if (!sample) continue;
    samples.push_back(*sample);
    if (run.on_sample) run.on_sample(*sample);
  }
  return samples;
}

}  // namespace lowgear::load
