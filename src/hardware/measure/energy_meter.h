#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hardware/gpu/gpu.h"
#include "hardware/gpu/rapl.h"
#include "hardware/measure/gpu_meter.h"
#include "hardware/measure/measurement.h"

namespace lowgear::measure {

struct EnergyMeterOptions {
  /// Time between readings. Not a divisor of 100 ms, so that readings fall at changing phases of the counter's steps.
  double period_s = 0.047;
  /// How long `await_ready` waits for the counters to show two steps.
  double ready_timeout_s = 1;
  EdgePower edge_power = EdgePower::any_seen;
  /// Called by the meter's thread with every sample of the GPU with this index among those that are measured; may be
  /// empty.
  std::function<void(std::size_t gpu, const GpuSample& sample)> observer = {};
};

/// Measures energy, power, clocks and throttling of GPUs over windows, which may overlap. A thread of its own reads the
/// GPUs; `begin` and `end` take microseconds. Safe from any thread.
///
/// The counter of an H100 advances every 100 ms, so a window of 10 s is known to about 1 %, one of 1 s to some 10 %;
/// every measurement states its own uncertainty. Power readings would not be better: A100 and H100 sample power
/// during a quarter of the time (arXiv 2312.02741).
class EnergyMeter {
 public:
  using WindowId = std::uint64_t;

  /// Starts reading. `gpus` are of `system`, which must live longer than this; all of them when empty.
  /// Without `cpus` no CPU is measured.
  explicit EnergyMeter(const gpu::GpuSystem& system, std::vector<gpu::Gpu*> gpus = {}, EnergyMeterOptions options = {},
                       std::unique_ptr<gpu::Rapl> cpus = nullptr);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// Waits until the counters can be read finely, at most for `ready_timeout_s`.
  void await_ready();
  /// Starts a window. The first one waits as `await_ready` does.
  [[nodiscard]] WindowId begin(std::string name);
  /// The window until now; it stays open. Throws InputError when there is no such window.
  [[nodiscard]] WindowMeasurement measure(WindowId window);
  /// The window until now, and its end. Throws InputError when there is no such window.
  WindowMeasurement end(WindowId window);
  /// Why the counter of a GPU is not used now; empty while every counter is used.
  [[nodiscard]] std::string counter_problem();

 private:
  struct Window {
    std::string name;
    double start_time_s = 0;
    std::vector<GpuWindow> gpus;
    std::vector<gpu::RaplReading> cpus;  ///< when it began
  };

  void run(const std::stop_token& stop);
  void add(std::size_t gpu, const GpuSample& sample);
  void await_ready(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] WindowMeasurement measure(const Window& window);
  [[nodiscard]] std::vector<gpu::RaplReading> read_cpus();
  [[nodiscard]] std::map<WindowId, Window>::iterator find(WindowId window);

  bool simulated_;
  EnergyMeterOptions options_;
  std::vector<gpu::Gpu*> gpus_;
  std::mutex mutex_;  ///< of all below
  std::condition_variable_any changed_;
  std::vector<GpuMeter> meters_;
  std::unique_ptr<gpu::Rapl> cpus_;
  WindowId next_id_ = 1;
  std::map<WindowId, Window> windows_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::measure
