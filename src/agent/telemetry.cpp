#include "agent/telemetry.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lowgear {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kNsPerS = 1'000'000'000;

std::int64_t wall_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

template <typename Read>
auto read_if(const Gpu& gpu, GpuFeature feature, Read read) -> std::optional<decltype(read())> {
  if (!works(gpu, feature)) return std::nullopt;
  try {
    return read();
  } catch (const GpuError&) {
    return std::nullopt;
  }
}

}  // namespace

GpuReading read_gpu(Gpu& gpu) {
  GpuReading reading;
  reading.time_ns = wall_time_ns();
  reading.energy_j = read_if(gpu, GpuFeature::energy_counter, [&gpu] { return gpu.energy_j(); });
  reading.power_w = read_if(gpu, GpuFeature::instant_power, [&gpu] { return gpu.instant_power_w(); });
  if (!reading.power_w) {
    reading.power_w = read_if(gpu, GpuFeature::average_power, [&gpu] { return gpu.average_power_w(); });
  }
  reading.sm_clock_mhz = read_if(gpu, GpuFeature::sm_clock, [&gpu] { return gpu.sm_clock_mhz(); });
  reading.memory_clock_mhz = read_if(gpu, GpuFeature::memory_clock, [&gpu] { return gpu.memory_clock_mhz(); });
  reading.temperature_c = read_if(gpu, GpuFeature::temperature, [&gpu] { return gpu.temperature_c(); });
  reading.throttle_reasons = read_if(gpu, GpuFeature::throttle_reasons, [&gpu] { return gpu.throttle_reasons(); });
  if (const auto utilisation = read_if(gpu, GpuFeature::utilisation, [&gpu] { return gpu.utilisation(); })) {
    reading.gpu_utilisation_percent = utilisation->gpu_percent;
    reading.memory_utilisation_percent = utilisation->memory_percent;
  }
  return reading;
}

/// One GPU's thread, and what it found last.
struct Telemetry::Sampler {
  std::shared_ptr<GpuSystem> system;
  Gpu* gpu = nullptr;
  Clock::duration period{};

  mutable std::mutex mutex;
  std::condition_variable wake;
  GpuReading latest;
  bool stopping = false;
  bool stopped = false;
  std::thread thread;

  void run() {
    Clock::time_point next = Clock::now();
    std::unique_lock lock(mutex);
    while (!stopping) {
      lock.unlock();
      const GpuReading reading = read_gpu(*gpu);
      lock.lock();
      latest = reading;
      // A GPU that answers slower than asked for is asked at once, but not several times to catch up.
      next = std::max(next + period, Clock::now());
      wake.wait_until(lock, next, [this] { return stopping; });
    }
    stopped = true;
    wake.notify_all();
  }
};

Telemetry::Telemetry(std::shared_ptr<GpuSystem> system, double rate_hz) {
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate_hz));
  for (const std::unique_ptr<Gpu>& gpu : system->gpus()) {
    auto sampler = std::make_shared<Sampler>();
    sampler->system = system;
    sampler->gpu = gpu.get();
    sampler->period = period;
    sampler->thread = std::thread([sampler] { sampler->run(); });
    samplers_.push_back(std::move(sampler));
  }
}

Telemetry::~Telemetry() {
  constexpr auto kPatience = std::chrono::seconds(1);
  const Clock::time_point deadline = Clock::now() + kPatience;
  for (const auto& sampler : samplers_) {
    const std::scoped_lock lock(sampler->mutex);
    sampler->stopping = true;
    sampler->wake.notify_all();
  }
  for (const auto& sampler : samplers_) {
    std::unique_lock lock(sampler->mutex);
    const bool stopped = sampler->wake.wait_until(lock, deadline, [&sampler] { return sampler->stopped; });
    lock.unlock();
    if (stopped) {
      sampler->thread.join();
    } else {
      sampler->thread.detach();  // the driver has it; it keeps what it uses alive
    }
  }
}

GpuReading Telemetry::reading(std::size_t gpu) const {
  const Sampler& sampler = *samplers_.at(gpu);
  const std::scoped_lock lock(sampler.mutex);
  return sampler.latest;
}

}  // namespace lowgear
