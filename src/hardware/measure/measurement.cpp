#include "hardware/measure/measurement.h"

#include <algorithm>

namespace lowgear::measure {

std::string_view name(EnergySource source) {
  switch (source) {
    case EnergySource::counter:
      return "counter";
    case EnergySource::integrated_power:
      return "integrated power";
  }
  return "counter";
}

bool GpuMeasurement::covers_all() const {
  constexpr double kRoundingS = 1e-6;  // of times added up
  return energy_j.has_value() && covered_s >= time_s - kRoundingS;
}

CpuMeasurement cpu_measurement(const gpu::RaplReading& from, const gpu::RaplReading& to) {
  CpuMeasurement result{.zone = to.zone, .energy_j = {}, .problem = to.problem};
  // One that has not moved yet has counted nothing; another's energy of before would fall into the window.
  if (result.problem.empty() && !from.problem.empty() && from.energy_j > 0) {
    result.problem = "not known when the window began: " + from.problem;
  }
  if (result.problem.empty() && to.set_aside != from.set_aside) {
    result.problem = "the counter has jumped, fallen or stood still meanwhile";
  }
  if (result.problem.empty()) result.energy_j = to.energy_j - from.energy_j;
  return result;
}

std::optional<double> WindowMeasurement::gpu_energy_j() const {
  std::optional<double> sum_j;
  for (const GpuMeasurement& gpu : gpus) {
    if (gpu.energy_j) sum_j = sum_j.value_or(0) + *gpu.energy_j;
  }
  return sum_j;
}

std::optional<double> WindowMeasurement::gpu_energy_uncertainty_j() const {
  std::optional<double> sum_j;
  for (const GpuMeasurement& gpu : gpus) {
    if (!gpu.energy_j) continue;
    if (!gpu.energy_uncertainty_j) return std::nullopt;
    sum_j = sum_j.value_or(0) + *gpu.energy_uncertainty_j;
  }
  return sum_j;
}

bool WindowMeasurement::gpu_energy_covers_all() const { return std::ranges::all_of(gpus, &GpuMeasurement::covers_all); }

}  // namespace lowgear::measure
