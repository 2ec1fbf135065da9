#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu/gpu.h"
#include "hardware/gpu/rapl.h"

namespace lowgear::measure {

/// Where the energy of a GPU comes from.
enum class EnergySource : unsigned char {
  counter,           ///< the GPU's own energy counter
  integrated_power,  ///< power readings added up: GPUs before Volta have no counter, and some counters are wrong
};
[[nodiscard]] std::string_view name(EnergySource source);

/// The measurement of one GPU over a window: a field for each figure of the output. Fields that the GPU does not report
/// are empty.
struct GpuMeasurement {
  gpu::GpuIdentity identity;
  double time_s = 0;  ///< of the window
  EnergySource source = EnergySource::counter;
  std::optional<double> energy_j;  ///< during `covered_s`; the rest is not extrapolated
  /// As +-: of the counter's steps at both ends of that time, or of the power readings. Empty with too few of them.
  std::optional<double> energy_uncertainty_j;
  double covered_s = 0;                      ///< time of the window over which the energy could be read
  std::optional<double> integrated_power_j;  ///< power readings added up: a check on the counter
  std::optional<double> mean_power_w;        ///< energy by the time that it covers
  std::optional<double> peak_power_w;        ///< highest reading; at least the mean
  std::optional<double> mean_sm_clock_mhz;
  std::optional<int> min_sm_clock_mhz;
  std::optional<int> max_sm_clock_mhz;
  std::optional<int> max_temperature_c;
  std::optional<double> mean_utilisation_percent;
  std::optional<double> power_capped_s;         ///< time during which a power limit held the clock down
  std::optional<double> thermally_throttled_s;  ///< time during which heat held it down
  int readings = 0;
  std::string problem;  ///< why a figure is missing, or why the counter's energy is not used; empty without either

  /// `energy_j` is that of the whole window.
  [[nodiscard]] bool covers_all() const;
};

/// Energy of one CPU package or memory domain.
struct CpuMeasurement {
  std::string zone;                ///< `package-0`, `package-0/dram`
  std::optional<double> energy_j;  ///< empty: unknown
  std::string problem;             ///< why it is unknown
};

/// The energy of a zone between two readings. Unknown when the counter was set aside meanwhile.
[[nodiscard]] CpuMeasurement cpu_measurement(const gpu::RaplReading& from, const gpu::RaplReading& to);

/// The measurement of a window.
struct WindowMeasurement {
  std::string name;
  double time_s = 0;
  bool simulated = false;  ///< the GPUs are Lowgear's simulation
  std::vector<GpuMeasurement> gpus;
  std::vector<CpuMeasurement> cpus;

  /// Sum over the GPUs that reported, over the time that each did; empty when none did.
  [[nodiscard]] std::optional<double> gpu_energy_j() const;
  /// Sum of the uncertainties of those GPUs: their counters need not be independent. Empty when one has none.
  [[nodiscard]] std::optional<double> gpu_energy_uncertainty_j() const;
  /// `gpu_energy_j` is that of all GPUs over the whole window.
  [[nodiscard]] bool gpu_energy_covers_all() const;
};

}  // namespace lowgear::measure
