#include "measure/measurement.h"

namespace lowgear {

std::string_view name(EnergySource source) {
  switch (source) {
    case EnergySource::counter:
      return "counter";
    case EnergySource::integrated_power:
      return "integrated power";
  }
  return "counter";
}

std::optional<double> WindowMeasurement::gpu_energy_j() const {
  std::optional<double> sum_j;
  for (const GpuMeasurement& gpu : gpus) {
    if (gpu.energy_j) sum_j = sum_j.value_or(0) + *gpu.energy_j;
  }
  return sum_j;
}

double WindowMeasurement::gpu_energy_uncertainty_j() const {
  double sum_j = 0;
  for (const GpuMeasurement& gpu : gpus) {
    if (gpu.energy_j) sum_j += gpu.energy_uncertainty_j.value_or(0);
  }
  return sum_j;
}

}  // namespace lowgear
