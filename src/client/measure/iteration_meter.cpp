#include "client/measure/iteration_meter.h"

#include <algorithm>
#include <utility>

namespace lowgear::client {

namespace {

/// Samples that may wait: five minutes of them, of some 200 bytes each.
constexpr std::size_t kMaxWaitingSamples = 6'000;

/// Samples that wait to be drained, which happens several times a second.
constexpr std::size_t kMaxQueuedSamples = 4'096;

double to_s(std::uint64_t time_ns) { return static_cast<double>(time_ns) * 1e-9; }

}  // namespace

void SampleQueue::add(const measure::GpuSample& sample) {
  const std::lock_guard lock(mutex_);
  if (samples_.size() < kMaxQueuedSamples) samples_.push_back(sample);
}

std::vector<measure::GpuSample> SampleQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

void IterationMeter::add(const measure::GpuSample& sample) {
  if (!gpu_) return;
  if (waiting_.size() == kMaxWaitingSamples) waiting_.pop_front();
  waiting_.push_back(sample);
}

void IterationMeter::take_samples(double until_s) {
  while (!waiting_.empty() && waiting_.front().time_s <= until_s) {
    const measure::GpuSample& sample = waiting_.front();
    gpu_->add(sample);
    if (open_ && open_->window) open_->window->add(sample);
    newest_sample_s_ = sample.time_s;
    waiting_.pop_front();
  }
}

/// The meter tells no energy of times before its newest sample. The training thread may have been held up between
/// reading the clock and marking what it read it for.
double IterationMeter::not_before_samples(double time_s) const { return std::max(time_s, newest_sample_s_); }

void IterationMeter::advance_to(std::uint64_t time_ns) { take_samples(to_s(time_ns)); }

void IterationMeter::add_unit(const UnitRecord& unit, Open& open) {
  open.compute.add(unit.begin_ns, unit.end_ns);
  open.wait_s.push_back(unit.begin_ns > open.free_ns ? to_s(unit.begin_ns - open.free_ns) : 0);
  open.free_ns = std::max(open.free_ns, unit.end_ns);
}

std::optional<MeasuredIteration> IterationMeter::add(const UnitRecord& record) {
  switch (record.type) {
    case RecordType::unit:
      if (open_) add_unit(record, *open_);
      return std::nullopt;
    case RecordType::iteration_begin:
      take_samples(to_s(record.begin_ns));
      open_ = Open{.begin = record, .compute = {}, .wait_s = {}, .free_ns = record.begin_ns, .window = {}};
      if (gpu_) open_->window = gpu_->begin(not_before_samples(to_s(record.begin_ns)));
      return std::nullopt;
    case RecordType::iteration_end:
      break;
  }
  take_samples(to_s(record.end_ns));
  if (!open_ || open_->begin.iteration != record.iteration) return std::nullopt;
  MeasuredIteration measured = measure(record);
  measured.wait_s = std::move(open_->wait_s);
  open_.reset();
  return measured;
}

MeasuredIteration IterationMeter::measure(const UnitRecord& end) const {
  MeasuredIteration result;
  result.iteration = end.iteration;
  result.begin_ns = open_->begin.begin_ns;
  result.time_s = to_s(end.end_ns - open_->begin.begin_ns);
  result.units_s = to_s(open_->free_ns - open_->begin.begin_ns);
  result.compute_s = to_s(open_->compute.covered_ns());
  if (!gpu_) return result;
  const measure::GpuMeasurement gpu = gpu_->measure(*open_->window, not_before_samples(to_s(end.end_ns)));
  result.energy_problem = gpu.problem;
  if (gpu.covers_all()) {
    result.energy_j = gpu.energy_j;
    result.energy_error_j = gpu.energy_uncertainty_j;
    result.is_counted = gpu.source == measure::EnergySource::counter;
  }
  result.throttled_power_s = gpu.power_capped_s;
  result.throttled_thermal_s = gpu.thermally_throttled_s;
  result.mean_sm_clock_mhz = gpu.mean_sm_clock_mhz;
  result.min_sm_clock_mhz = gpu.min_sm_clock_mhz;
  result.max_sm_clock_mhz = gpu.max_sm_clock_mhz;
  return result;
}

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
    if (iteration.energy_j && iteration.energy_error_j && iteration.time_s > 0) {
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
