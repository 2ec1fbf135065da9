#include "agent/gpu/telemetry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <utility>

#include "base/core/monotonic_clock.h"

namespace lowgear::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kNanosecondsPerS = 1'000'000'000;

std::int64_t wall_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNanosecondsPerS + now.tv_nsec;
}

template <typename Read>
auto read_if(const gpu::Gpu& gpu, gpu::GpuFeature feature, Read read) -> std::optional<decltype(read())> {
  if (!works(gpu, feature)) return std::nullopt;
  try {
    return read();
  } catch (const gpu::GpuError&) {
    return std::nullopt;
  }
}

EnergyCounterStatus energy_counter_when_opened(const gpu::Gpu& gpu) {
  const gpu::GpuFeatureStatus& feature = gpu.features()[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)];
  EnergyCounterStatus status;
  status.present = status.works = feature.works;
  status.problem = feature.reason;
  return status;
}

bool tells_anything(const gpu::GpuValues& values) {
  const auto is_known = [&](const gpu::GpuQuantity& quantity) { return quantity.of(values).has_value(); };
  const auto knows_any = [&](const gpu::GpuSensor& sensor) { return std::ranges::any_of(sensor.quantities, is_known); };
  return values.throttle_reasons || std::ranges::any_of(gpu::gpu_sensors(), knows_any);
}

}  // namespace

EnergyCounter::EnergyCounter(gpu::Gpu& gpu)
    : counter_(measure::counter_traits(gpu)), status_(energy_counter_when_opened(gpu)) {}

std::optional<double> EnergyCounter::add(const measure::GpuSample& sample) {
  if (!status_.present) return std::nullopt;
  const EnergyVerdict step = counter_.add(measure::counter_reading(sample));
  if (!step.usable()) status_.newest_set_aside = "the energy counter " + step.reason;
  status_.works = counter_.state().usable();
  status_.problem = status_.works ? "" : "the energy counter " + counter_.state().reason;
  for (std::size_t fault = 0; fault < status_.set_aside.size(); ++fault) {
    status_.set_aside.at(fault) = counter_.set_aside(static_cast<EnergyFault>(fault));
  }
  return sample.energy_j && status_.works ? counter_.energy_j() : std::nullopt;
}

GpuReading read_gpu(gpu::Gpu& gpu, std::string* problem, EnergyCounter* counter) {
  const std::int64_t time_ns = wall_time_ns();
  measure::GpuSample taken = measure::sample(gpu, monotonic_s);
  if (problem != nullptr) *problem = taken.problem;
  if (counter != nullptr) taken.energy_j = counter->add(taken);
  return {taken, time_ns};
}

GpuSettings read_settings(gpu::Gpu& gpu) {
  return {
      .asked_ns = monotonic_ns(),
      .power_limits = read_if(gpu, gpu::GpuFeature::power_limits, [&gpu] { return gpu.power_limits(); }),
      .persistence_mode = read_if(gpu, gpu::GpuFeature::persistence_mode, [&gpu] { return gpu.persistence_mode(); }),
      .workload_power_profiles =
          read_if(gpu, gpu::GpuFeature::workload_power_profiles, [&gpu] { return gpu.workload_power_profiles(); }),
      .power_smoothing = read_if(gpu, gpu::GpuFeature::power_smoothing, [&gpu] { return gpu.power_smoothing(); })};
}

/// One GPU's thread, and what it found last. Both share the one mutex, as callers read several of the values at once.
struct Telemetry::Sampler {
  std::shared_ptr<gpu::GpuSystem> system;
  gpu::Gpu* gpu = nullptr;
  Clock::duration period{};
  Clock::duration settings_period{};

  mutable std::mutex mutex;
  std::condition_variable wake;
  GpuReading reading;
  GpuSettings settings;
  std::string problem;
  std::optional<std::int64_t> answered_ns;    // CLOCK_MONOTONIC
  std::optional<std::int64_t> busy_since_ns;  // CLOCK_MONOTONIC
  EnergyCounterStatus energy_counter;
  bool settings_changed = true;
  bool stopping = false;

  void run() {
    Clock::time_point next = Clock::now();
    Clock::time_point next_settings = next;
    std::unique_lock lock(mutex);
    EnergyCounter counter = ask(lock, [this] { return EnergyCounter(*gpu); });
    while (!stopping) {
      if (settings_changed || Clock::now() >= next_settings) {
        settings_changed = false;
        next_settings = Clock::now() + settings_period;
        const GpuSettings read = ask(lock, [this] { return read_settings(*gpu); });
        settings = read;
      }
      if (Clock::now() >= next) {
        std::string problem_now;
        const GpuReading read = ask(lock, [&] { return read_gpu(*gpu, &problem_now, &counter); });
        energy_counter = counter.status();
        take(read, std::move(problem_now));
        // A GPU that answers slower than asked for is asked at once, but not several times to catch up.
        next = std::max(next + period, Clock::now());
      }
      wake.wait_until(lock, std::min(next, next_settings), [this] { return stopping || settings_changed; });
    }
  }

  /// Reads while others may look at what was read before.
  template <typename Read>
  auto ask(std::unique_lock<std::mutex>& lock, Read read) -> decltype(read()) {
    busy_since_ns = monotonic_ns();
    lock.unlock();
    auto now = read();
    lock.lock();
    busy_since_ns.reset();
    return now;
  }

  /// A reading without any answer takes the place of none: a GPU that does not answer shows in the age.
  void take(const GpuReading& read, std::string problem_now) {
    problem = std::move(problem_now);
    if (!tells_anything(read)) return;
    reading = read;
    answered_ns = monotonic_ns();
  }
};

Telemetry::Telemetry(const GuardedGpus& system, double rate_hz, std::chrono::milliseconds settings_period) {
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate_hz));
  if (!system.driver()) return;
  for (const std::unique_ptr<gpu::Gpu>& gpu : system.driver()->gpus()) {
    auto sampler = std::make_shared<Sampler>();
    sampler->system = system.driver();
    sampler->gpu = gpu.get();
    sampler->period = period;
    sampler->settings_period = settings_period;
    sampler->energy_counter = energy_counter_when_opened(*gpu);
    threads_.emplace_back([sampler] { sampler->run(); });
    samplers_.push_back(std::move(sampler));
  }
}

Telemetry::~Telemetry() {
  for (const auto& sampler : samplers_) {
    const std::scoped_lock lock(sampler->mutex);
    sampler->stopping = true;
    sampler->wake.notify_all();
  }
  const Clock::time_point deadline = Clock::now() + DriverThread::kPatience;
  for (DriverThread& thread : threads_) thread.end_until(deadline);
}

GpuReading Telemetry::reading(std::size_t gpu) const {
  const Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  return sampler.reading;
}

GpuSettings Telemetry::settings(std::size_t gpu) const {
  const Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  return sampler.settings;
}

GpuAnswering Telemetry::answering(std::size_t gpu) const {
  const Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  const std::int64_t now_ns = monotonic_ns();
  GpuAnswering answering;
  answering.problem = sampler.problem;
  if (sampler.answered_ns)
    answering.reading_age_s = static_cast<double>(now_ns - *sampler.answered_ns) / kNanosecondsPerS;
  if (sampler.busy_since_ns) answering.busy = std::chrono::nanoseconds(now_ns - *sampler.busy_since_ns);
  return answering;
}

void Telemetry::settings_changed(std::size_t gpu) {
  Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  sampler.settings_changed = true;
  sampler.wake.notify_all();
}

EnergyCounterStatus Telemetry::energy_counter(std::size_t gpu) const {
  const Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  return sampler.energy_counter;
}

}  // namespace lowgear::agent
