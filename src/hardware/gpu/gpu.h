#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/core/error.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::gpu {

enum class GpuFeature : unsigned char;
class NvmlGpu;

/// Why a GPU runs below its requested clock, as NVML's clock event reasons.
struct ThrottleReasons {
  std::uint64_t bits = 0;  ///< NVML's bit mask

  [[nodiscard]] bool idle() const { return (bits & 0x1U) != 0; }
  [[nodiscard]] bool power_cap() const { return (bits & 0x84U) != 0; }  ///< software cap or hardware power brake
  [[nodiscard]] bool thermal() const { return (bits & 0x60U) != 0; }    ///< software or hardware thermal slowdown
  [[nodiscard]] bool hardware_slowdown() const { return (bits & 0x8U) != 0; }
  /// Below the requested clock for any reason except idleness and the clocks that were set.
  [[nodiscard]] bool throttled() const { return power_cap() || thermal() || hardware_slowdown(); }
};

/// `power cap, thermal`; `none` when nothing holds it back.
[[nodiscard]] std::string to_string(ThrottleReasons reasons);

/// Values of the sensors of one GPU. A value is empty when the GPU does not report it, or not now.
struct GpuValues {
  std::optional<double> energy_j;  ///< since the driver was loaded; advances in steps (100 ms of power on an H100)
  std::optional<double> power_w;   ///< instant where the GPU has it, average otherwise
  std::optional<int> sm_clock_mhz;
  std::optional<int> memory_clock_mhz;
  std::optional<int> temperature_c;
  std::optional<int> gpu_utilisation_percent;     ///< share of the last sample period in which a kernel ran
  std::optional<int> memory_utilisation_percent;  ///< share in which device memory was read or written
  std::optional<ThrottleReasons> throttle_reasons;
};

/// How the values of a time span become one.
enum class GpuAggregation : unsigned char {
  difference,  ///< a counter: its end less its begin
  mean,        ///< a gauge: its value at a moment
};

/// One number that a GPU reports.
struct GpuQuantity {
  std::string_view name;  ///< with its unit: `sm_clock_mhz`, the member of the agent's JSON
  GpuAggregation aggregation = GpuAggregation::mean;
  std::variant<std::optional<double> GpuValues::*, std::optional<int> GpuValues::*> value;
  std::string_view metric;  ///< in Prometheus' text, in a base unit: `gpu_sm_clock_hertz`
  double metric_scale = 1;  ///< from the unit of `name` to that of `metric`
  std::string_view help;    ///< of the metric

  [[nodiscard]] std::optional<double> of(const GpuValues& values) const;
};

/// One call to the driver, and the quantities that it yields.
struct GpuSensor {
  GpuFeature feature;
  /// Adds the driver's values to `values`. Throws GpuError. Runs for milliseconds (the energy counter takes 3 ms on an
  /// H100).
  void (*read)(const NvmlGpu& gpu, GpuValues& values);
  /// In the order of JSON and metrics. Empty when the values are no numbers, or when another sensor is better.
  std::vector<GpuQuantity> quantities;
  /// Read only if this sensor, which is in the row before, returned nothing.
  std::optional<GpuFeature> stand_in_for = std::nullopt;
};

/// Every sensor, in the order of reading. Code that reads, publishes or names sensors goes through this table.
/// CONTRIBUTING.md, "Add a sensor", lists the other places that a new row needs.
[[nodiscard]] const std::vector<GpuSensor>& gpu_sensors();

/// Why a call to a GPU failed.
enum class GpuErrorCode : unsigned char {
  not_supported,   ///< this GPU or driver lacks the feature
  no_permission,   ///< the caller lacks permission; clocks and limits need root
  invalid_value,   ///< outside the GPU's range
  gpu_lost,        ///< fallen off the bus, or inaccessible until a reboot
  timeout,         ///< the driver did not answer in time
  driver_missing,  ///< no NVIDIA driver or no NVML library on this machine
  driver_error,    ///< anything else the driver reported
};

/// `not_supported`, `no_permission`, ...
[[nodiscard]] std::string_view name(GpuErrorCode code);

/// A call to a GPU failed. The message names the GPU, the request, the driver's error, and what to do.
class GpuError : public Error {
 public:
  GpuError(GpuErrorCode code, const std::string& message) : Error(message), code_(code) {}
  [[nodiscard]] GpuErrorCode code() const { return code_; }

 private:
  GpuErrorCode code_;
};

/// Power smoothing of a GPU (NVML 12.8, GPUs since Blackwell): hardware that keeps the power from rising and falling
/// fast, by burning power when there is no work. It costs energy, and its circuitry wears. Optional members are empty
/// where the driver does not report them.
struct PowerSmoothing {
  bool enabled = false;
  std::optional<int> active_preset;             ///< number of the preset profile in effect
  std::optional<int> presets;                   ///< number of presets; they are numbered from 0
  std::optional<double> ceiling_w;              ///< of the total module power, as applied
  std::optional<double> floor_w;                ///< lower bound of the power, as applied
  std::optional<double> floor_percent;          ///< of the ceiling, of the active preset
  std::optional<double> ramp_up_w_per_s;        ///< of the active preset
  std::optional<double> ramp_down_w_per_s;      ///< of the active preset
  std::optional<double> ramp_down_delay_ms;     ///< of the active preset: hysteresis before the power may fall
  std::optional<double> lifetime_left_percent;  ///< of the circuitry

  bool operator==(const PowerSmoothing&) const = default;
};

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
  double current_w = 0;   ///< as requested
  double enforced_w = 0;  ///< in effect, after all other limits of the machine
};

/// Reads one GPU, and never changes it. Calls may block for milliseconds and may be made from any thread. Every call
/// throws GpuError when it fails.
class Gpu {
 public:
  virtual ~Gpu() = default;

  [[nodiscard]] virtual const GpuIdentity& identity() const = 0;
  /// The features that work, found out once when the GPU was opened.
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

/// The current values of one sensor. Throws GpuError.
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
  /// The library is Lowgear's simulation: every result made with it has to say *simulated*.
  [[nodiscard]] virtual bool simulated() const = 0;
  /// Why GPUs that the driver counts are not among `gpus` (fallen off the bus, blocked by a container), one each.
  [[nodiscard]] virtual std::vector<std::string> problems() const { return {}; }
};

/// A message of a driver call without the GPU's name at its begin, for texts that name the GPU already.
[[nodiscard]] std::string without_gpu_name(std::string_view message, std::string_view uuid);

/// Whether this UUID or PCI address (in any spelling, with or without the domain) is the GPU's.
[[nodiscard]] bool is_called(const GpuIdentity& gpu, std::string_view uuid_or_pci_address);

/// The GPU with this UUID or PCI address (with or without the domain). Throws InputError naming the GPUs of the system.
[[nodiscard]] Gpu& find_gpu(const GpuSystem& system, std::string_view uuid_or_pci_address);

}  // namespace lowgear::gpu
