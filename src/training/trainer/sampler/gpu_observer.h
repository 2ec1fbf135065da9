#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/rank/rank_environment.h"
#include "estimating/sampling/sample_csv.h"
#include "hardware/gpu/gpu.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::trainer {

/// Work that is repeated while its energy is measured.
struct RepeatedWork {
  std::function<void()> begin_one;
  std::function<void()> finish;  ///< waits until all that was begun is done
  /// Returns the largest value of all ranks, so that all repeat the work as often; one process returns its own.
  std::function<double(double)> agree = [](double value) { return value; };
};

/// Reads clock and energy of one GPU; changes nothing.
class GpuObserver {
 public:
  /// The GPU that CUDA gives this process as device `local_rank`. Throws GpuError or InputError where NVML does not
  /// show it.
  GpuObserver(int local_rank, const Environment& environment);
  /// A GPU of `system`, which lives longer than this.
  GpuObserver(const gpu::GpuSystem& system, gpu::Gpu& gpu);

  [[nodiscard]] const std::string& driver_version() const { return system_->driver_version(); }
  [[nodiscard]] bool simulated() const { return system_->simulated(); }
  /// Of the SMs now, in MHz; empty where the GPU does not report it.
  [[nodiscard]] std::optional<double> clock_mhz();
  /// Runs the work without a pause, at first until power has settled, then for about `window_s`, which is measured.
  /// `run_s` is the approximate time of one run. Empty: the GPU does not report its energy.
  [[nodiscard]] std::optional<sampling::SampledEnergy> energy_of(const RepeatedWork& work, double run_s,
                                                                 double window_s);

 private:
  std::unique_ptr<gpu::GpuSystem> own_system_;
  const gpu::GpuSystem* system_;
  gpu::Gpu* gpu_;
  measure::EnergyMeter meter_;
};

}  // namespace lowgear::trainer
