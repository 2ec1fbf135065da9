#include "hardware/measure/gpu_meter.h"

#include <algorithm>
#include <utility>

namespace lowgear::measure {
namespace {

/// A counter that could not be read for the rest of a window is still worth more than power readings, which say
/// nothing of how far off they are, unless they cover clearly more.
constexpr double kCounterPreferredShare = 0.9;

template <typename Value>
void raise(std::optional<Value>& highest, Value value) {
  highest = highest ? std::max(*highest, value) : value;
}

template <typename Value>
void lower(std::optional<Value>& lowest, Value value) {
  lowest = lowest ? std::min(*lowest, value) : value;
}

}  // namespace

GpuWindow::GpuWindow(double start_time_s, std::optional<EnergyEstimate> start)
    : start_time_s_(start_time_s), start_(start), last_time_s_(start_time_s) {}

void GpuWindow::add(const GpuSample& sample) {
  if (sample.time_s <= last_time_s_) return;  // taken before the window began
  const double over_s = sample.time_s - last_time_s_;
  last_time_s_ = sample.time_s;
  ++readings_;
  if (sample.power_w) {
    // Between two readings power is taken to change evenly.
    power_.add((last_power_w_.value_or(*sample.power_w) + *sample.power_w) / 2, over_s);
    raise(extremes_.peak_power_w, *sample.power_w);
  }
  last_power_w_ = sample.power_w;
  if (sample.sm_clock_mhz) {
    clock_.add(*sample.sm_clock_mhz, over_s);
    lower(extremes_.min_clock_mhz, *sample.sm_clock_mhz);
    raise(extremes_.max_clock_mhz, *sample.sm_clock_mhz);
  }
  if (sample.temperature_c) raise(extremes_.max_temperature_c, *sample.temperature_c);
  if (sample.gpu_utilisation_percent) utilisation_.add(*sample.gpu_utilisation_percent, over_s);
  if (sample.throttle_reasons) {
    power_capped_.add(sample.throttle_reasons->power_cap() ? 1 : 0, over_s);
    thermally_throttled_.add(sample.throttle_reasons->thermal() ? 1 : 0, over_s);
  }
}

/// What the counter says: nothing when it started over, or was not read since the window's begin.
GpuWindow::CoveredEnergy GpuWindow::counted(const std::optional<EnergyEstimate>& end) const {
  if (!start_ || !end || start_->run != end->run || end->time_s <= start_->time_s) return {};
  return {.energy_j = std::max(0.0, end->energy_j - start_->energy_j), .covered_s = end->time_s - start_->time_s};
}

/// What the power readings say; the last one holds until the end.
GpuWindow::CoveredEnergy GpuWindow::integrated(double end_time_s) const {
  const double rest_s = last_power_w_ ? std::max(0.0, end_time_s - last_time_s_) : 0;
  return {.energy_j = power_.sum + last_power_w_.value_or(0) * rest_s, .covered_s = power_.time_s + rest_s};
}

GpuMeasurement GpuWindow::measure(double end_time_s, std::optional<EnergyEstimate> end) const {
  GpuMeasurement result;
  result.time_s = end_time_s - start_time_s_;
  const CoveredEnergy by_counter = counted(end);
  const CoveredEnergy by_power = integrated(end_time_s);
  const bool counter_serves =
      by_counter.covered_s > 0 && by_counter.covered_s >= kCounterPreferredShare * by_power.covered_s;
  const CoveredEnergy& energy = counter_serves ? by_counter : by_power;
  result.source = counter_serves ? EnergySource::counter : EnergySource::integrated_power;
  result.covered_s = energy.covered_s;
  if (by_power.covered_s > 0) result.integrated_power_j = by_power.energy_j;
  if (energy.covered_s > 0) {
    result.energy_j = energy.energy_j;
    result.mean_power_w = energy.energy_j / energy.covered_s;
  }
  if (counter_serves) result.energy_uncertainty_j = end->uncertainty_j + start_->uncertainty_j;
  result.peak_power_w = extremes_.peak_power_w;
  // Readings lie between the moments that they are taken at; the counter's energy shows what they have missed.
  if (result.peak_power_w && result.mean_power_w) {
    result.peak_power_w = std::max(*result.peak_power_w, *result.mean_power_w);
  }
  result.mean_sm_clock_mhz = clock_.mean();
  result.min_sm_clock_mhz = extremes_.min_clock_mhz;
  result.max_sm_clock_mhz = extremes_.max_clock_mhz;
  result.max_temperature_c = extremes_.max_temperature_c;
  result.mean_utilisation_percent = utilisation_.mean();
  if (power_capped_.time_s > 0) {
    result.power_capped_s = power_capped_.sum;
    result.thermally_throttled_s = thermally_throttled_.sum;
  }
  result.readings = readings_;
  return result;
}

GpuSample sample(gpu::Gpu& gpu, const std::function<double()>& now_s) {
  GpuSample result;
  std::optional<gpu::GpuFeature> answered;
  for (const gpu::GpuSensor& sensor : gpu::gpu_sensors()) {
    if (!works(gpu, sensor.feature) || (answered && sensor.stand_in_for == answered)) continue;
    const bool is_counter = sensor.feature == gpu::GpuFeature::energy_counter;
    try {
      const double before_s = is_counter ? now_s() : 0;
      gpu.read(sensor.feature, result);
      if (is_counter) result.counter_time_s = (before_s + now_s()) / 2;
      answered = sensor.feature;
    } catch (const gpu::GpuError& error) {
      result.problem = error.what();
    }
  }
  result.time_s = now_s();
  return result;
}

GpuMeter::GpuMeter(gpu::GpuIdentity identity, const gpu::GpuFeatures& features)
    : identity_(std::move(identity)), counter_(features[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)]) {}

void GpuMeter::add(const GpuSample& sample) {
  if (!sample.problem.empty()) problem_ = sample.problem;
  if (!counter_.works) return;
  counter_answers_ = sample.energy_j.has_value();
  if (!counter_answers_) return;
  counter_time_s_ = sample.counter_time_s;
  track_.add(counter_time_s_, *sample.energy_j);
}

bool GpuMeter::ready() const { return track_.ready() || !counter_.works || !problem_.empty(); }

GpuWindow GpuMeter::begin(double time_s) const { return {time_s, counter_answers_ ? track_.at(time_s) : std::nullopt}; }

GpuMeasurement GpuMeter::measure(const GpuWindow& window, double time_s) const {
  GpuMeasurement result = window.measure(time_s, track_.at(counter_answers_ ? time_s : counter_time_s_));
  result.identity = identity_;
  result.problem = problem_.empty() ? counter_.reason : problem_;
  return result;
}

}  // namespace lowgear::measure
