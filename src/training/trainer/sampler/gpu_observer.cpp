#include "training/trainer/sampler/gpu_observer.h"

#include <algorithm>
#include <cmath>

#include "base/core/monotonic_clock.h"
#include "client/rank/gpu_choice.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::trainer {
namespace {

/// Power of a GPU follows its load within some 100 ms.
constexpr double kSettleS = 0.3;

const measure::EnergyMeterOptions kSettledWork = {.edge_power = measure::EdgePower::recent};

long runs_in(double time_s, double run_s) {
  constexpr double kMostRuns = 1e7;
  return static_cast<long>(std::clamp(std::ceil(time_s / std::max(run_s, 1e-9)), 1.0, kMostRuns));
}

/// Seconds that so many runs take.
double run_all(const RepeatedWork& work, long runs) {
  const double begin_s = monotonic_s();
  for (long i = 0; i < runs; ++i) work.begin_one();
  work.finish();
  return monotonic_s() - begin_s;
}

}  // namespace

GpuObserver::GpuObserver(int local_rank, const Environment& environment)
    : own_system_(gpu::open_nvml()),
      system_(own_system_.get()),
      gpu_(&client::choose_gpu(*system_, local_rank, environment)),
      meter_(*system_, {gpu_}, kSettledWork) {}

GpuObserver::GpuObserver(const gpu::GpuSystem& system, gpu::Gpu& gpu)
    : system_(&system), gpu_(&gpu), meter_(system, {&gpu}, kSettledWork) {}

std::optional<double> GpuObserver::clock_mhz() {
  if (!works(*gpu_, gpu::GpuFeature::sm_clock)) return std::nullopt;
  try {
    return read(*gpu_, gpu::GpuFeature::sm_clock).sm_clock_mhz;
  } catch (const gpu::GpuError&) {
    return std::nullopt;
  }
}

std::optional<sampling::SampledEnergy> GpuObserver::energy_of(const RepeatedWork& work, double run_s, double window_s) {
  const long settling_runs = runs_in(kSettleS, run_s);
  const double settled_run_s = work.agree(run_all(work, settling_runs) / static_cast<double>(settling_runs));
  const long runs = runs_in(window_s, settled_run_s);
  const auto count = static_cast<double>(runs);
  const measure::EnergyMeter::WindowId window = meter_.begin("sample");
  const double time_s = run_all(work, runs);
  const measure::GpuMeasurement measured = meter_.end(window).gpus.front();
  if (!measured.covers_all() || !measured.energy_uncertainty_j) return std::nullopt;
  return sampling::SampledEnergy{.energy_j = *measured.energy_j / count,
                                 .error_j = *measured.energy_uncertainty_j / count,
                                 .window_us = time_s / count * 1e6,
                                 .clock_mhz = measured.mean_sm_clock_mhz};
}

}  // namespace lowgear::trainer
