#include "agent/telemetry.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/monotonic_clock.h"
#include "measure/gpu_meter.h"

namespace lowgear {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kNsPerS = 1'000'000'000;

std::int64_t wall_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

}  // namespace

GpuReading read_gpu(Gpu& gpu) {
  GpuReading reading;
  reading.time_ns = wall_time_ns();
  const GpuSample taken = sample(gpu, monotonic_s);
  if (taken.counter) reading.energy_j = taken.counter->energy_j;
  reading.power_w = taken.power_w;
  reading.sm_clock_mhz = taken.sm_clock_mhz;
  reading.memory_clock_mhz = taken.memory_clock_mhz;
  reading.temperature_c = taken.temperature_c;
  reading.throttle_reasons = taken.throttle_reasons;
  if (taken.utilisation) {
    reading.gpu_utilisation_percent = taken.utilisation->gpu_percent;
    reading.memory_utilisation_percent = taken.utilisation->memory_percent;
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
  }
};

Telemetry::Telemetry(std::shared_ptr<GpuSystem> system, double rate_hz) {
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate_hz));
  for (const std::unique_ptr<Gpu>& gpu : system->gpus()) {
    auto sampler = std::make_shared<Sampler>();
    sampler->system = system;
    sampler->gpu = gpu.get();
    sampler->period = period;
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
  return sampler.latest;
}

}  // namespace lowgear
