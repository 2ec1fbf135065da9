#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpu/guarded_driver.h"
#include "agent/service/agent_service.h"
#include "base/core/energy/checked_counter.h"
#include "hardware/gpu/gpu.h"
#include "hardware/measure/gpu_meter.h"

namespace lowgear::agent {

/// Follows a GPU's energy counter and decides what of it is published. Steps that cannot be are left out.
class EnergyCounter {
 public:
  explicit EnergyCounter(gpu::Gpu& gpu);

  /// The energy to publish for this sample: empty where the counter does not work.
  [[nodiscard]] std::optional<double> add(const measure::GpuSample& sample);
  [[nodiscard]] const EnergyCounterStatus& status() const { return status_; }

 private:
  CheckedCounter counter_;
  EnergyCounterStatus status_;
};

/// Reads everything that a GPU reports; values that it does not report, or not now, stay empty. `problem`, if
/// not null, is set to the driver's error for a reading that worked when the GPU was opened; empty if all work. The
/// energy is what `counter`, if not null, makes of the GPU's.
[[nodiscard]] GpuReading read_gpu(gpu::Gpu& gpu, std::string* problem = nullptr, EnergyCounter* counter = nullptr);

/// Present settings of a GPU, by any program; empty if it does not report them.
struct GpuSettings {
  std::int64_t asked_ns = 0;  ///< CLOCK_MONOTONIC before it was asked; 0: it never was
  std::optional<gpu::PowerLimits> power_limits;
  std::optional<bool> persistence_mode;
  std::optional<gpu::WorkloadPowerProfiles> workload_power_profiles = {};
  std::optional<gpu::PowerSmoothing> power_smoothing = {};
};
[[nodiscard]] GpuSettings read_settings(gpu::Gpu& gpu);

/// How a GPU answers those who read it.
struct GpuAnswering {
  std::optional<double> reading_age_s;  ///< since it last answered a reading; empty: it never did
  std::string problem;               ///< why a reading fails that worked when the GPU was opened; empty when all work
  std::chrono::nanoseconds busy{0};  ///< duration of the present driver call
};

/// Samples all GPUs at the same rate, each on its own thread, so that a driver that hangs on one GPU does not affect
/// readings of others.
class Telemetry {
 public:
  /// The GPUs outlive this, and a thread that the driver never returns to outlives both: hence shared ownership.
  Telemetry(const GuardedGpus& system, double rate_hz, std::chrono::milliseconds settings_period);
  /// Waits for threads that are within the driver, `DriverThread::kPatience` for all of them together.
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  /// The newest reading that the GPU at this place of the system's list answered; waits for nothing. `time_ns` is 0
  /// before the first.
  [[nodiscard]] GpuReading reading(std::size_t gpu) const;
  /// The newest settings, in the same manner: read every `settings_period`.
  [[nodiscard]] GpuSettings settings(std::size_t gpu) const;
  [[nodiscard]] GpuAnswering answering(std::size_t gpu) const;
  /// Reads the settings of this GPU at once, as they have been changed. Does not wait for it.
  void settings_changed(std::size_t gpu);
  /// Whether the GPU counts its energy, and whether that can be right.
  [[nodiscard]] EnergyCounterStatus energy_counter(std::size_t gpu) const;

 private:
  struct Sampler;
  std::vector<std::shared_ptr<Sampler>> samplers_;
  std::vector<DriverThread> threads_;
};

}  // namespace lowgear::agent
