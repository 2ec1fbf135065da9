#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/gpu/gpu_error.h"
#include "hardware/gpu/gpu_sensor.h"
#include "hardware/gpu/power_smoothing.h"
#include "hardware/gpu/workload_power_profile.h"

namespace lowgear::gpu {

/// Identity of a GPU. CUDA ordinals and NVML indices change between processes and boots; the UUID and the PCI address
/// do not, so everything in Lowgear names GPUs by them.
struct GpuIdentity {
  std::string uuid;          ///< `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`
  std::string pci_address;   ///< `0000:00:06.0`, lower case, as sysfs names it
  std::string name;          ///< `NVIDIA H100 80GB HBM3`
  int index = 0;             ///< position in the driver's list, for display only
  bool mig_enabled = false;  ///< energy and clocks of a GPU in MIG mode belong to all its instances together
  /// The energy counter covers a whole module (GH200: Grace CPU and memory too), not the GPU alone.
  bool counts_whole_module = false;
};

/// Features that a GPU may or may not have with the present driver.
enum class GpuFeature : unsigned char {
  energy_counter,
  average_power,  ///< over one second on Ampere and later, except GA100
  instant_power,  ///< over the last 100 ms
  sm_clock,
  memory_clock,
  temperature,
  throttle_reasons,
  utilisation,
  supported_clocks,
  power_limits,
  persistence_mode,
  clock_control,  ///< locked SM clocks; whether this process may use it is another question
  power_control,
  workload_power_profiles,
  power_smoothing,
};
inline constexpr int kGpuFeatureCount = 15;

/// `energy_counter`, `average_power`, ...
[[nodiscard]] std::string_view name(GpuFeature feature);

/// Whether a feature works; if not, why.
struct GpuFeatureStatus {
  bool works = false;
  GpuErrorCode code = GpuErrorCode::not_supported;  ///< meaningful when it does not work
  std::string reason;                               ///< empty when it works
};
using GpuFeatures = std::array<GpuFeatureStatus, kGpuFeatureCount>;

struct PowerLimits {
  double min_w = 0;
  double max_w = 0;
  double default_w = 0;
  double current_w = 0;   ///< what was asked for
  double enforced_w = 0;  ///< what holds, after all other limits of the machine
};

/// Reads one GPU; nothing here changes it. Calls may block for milliseconds and may be made from any thread. Every call
/// throws GpuError when it fails.
class Gpu {
 public:
  virtual ~Gpu() = default;

  [[nodiscard]] virtual const GpuIdentity& identity() const = 0;
  /// What works here, found out once when the GPU was opened.
  [[nodiscard]] virtual const GpuFeatures& features() const = 0;

  /// Reads one sensor and adds its values to `values`. For a feature that is in `gpu_sensors`; the energy counter
  /// takes 3 ms on an H100.
  virtual void read(GpuFeature sensor, GpuValues& values) = 0;
  /// SM clocks that can be locked, highest first, at the highest memory clock.
  [[nodiscard]] virtual std::vector<int> supported_sm_clocks_mhz() = 0;
  [[nodiscard]] virtual PowerLimits power_limits() = 0;
  /// Whether the driver keeps the GPU initialised while no process uses it.
  [[nodiscard]] virtual bool persistence_mode() = 0;
  [[nodiscard]] virtual WorkloadPowerProfiles workload_power_profiles() = 0;
  [[nodiscard]] virtual PowerSmoothing power_smoothing() = 0;
};

/// Whether the feature works on this GPU.
[[nodiscard]] inline bool works(const Gpu& gpu, GpuFeature feature) {
  return gpu.features()[static_cast<std::size_t>(feature)].works;
}

/// What one sensor says now. Throws GpuError.
[[nodiscard]] inline GpuValues read(Gpu& gpu, GpuFeature sensor) {
  GpuValues values;
  gpu.read(sensor, values);
  return values;
}

/// The GPUs of this machine.
class GpuSystem {
 public:
  virtual ~GpuSystem() = default;

  /// In the driver's order. Live as long as this.
  [[nodiscard]] virtual const std::vector<std::unique_ptr<Gpu>>& gpus() const = 0;
  /// `580.159.04`
  [[nodiscard]] virtual const std::string& driver_version() const = 0;
  /// The library is Lowgear's simulation: whatever is made with it has to say *simulated*.
  [[nodiscard]] virtual bool simulated() const = 0;
  /// Why GPUs that the driver counts are not among `gpus` (fallen off the bus, blocked by a container), one each.
  [[nodiscard]] virtual std::vector<std::string> problems() const { return {}; }
};

/// A message of a driver call without the GPU's name at its begin, for where that is said already.
[[nodiscard]] std::string without_gpu_name(std::string_view message, std::string_view uuid);

/// Whether this UUID or PCI address (in any spelling, with or without the domain) is the GPU's.
[[nodiscard]] bool is_called(const GpuIdentity& gpu, std::string_view uuid_or_pci_address);

/// The GPU with this UUID or PCI address (with or without the domain). Throws InputError naming those there are.
[[nodiscard]] Gpu& find_gpu(const GpuSystem& system, std::string_view uuid_or_pci_address);

}  // namespace lowgear::gpu
