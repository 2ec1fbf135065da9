#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// Values of the sensors of one GPU; values that it does not report, or not at present, are empty.
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
  mean,        ///< a gauge: what it shows at a moment
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

/// One call to the driver and what it yields.
struct GpuSensor {
  GpuFeature feature;
  /// Adds what the driver answers to `values`. Throws GpuError. Runs for milliseconds (the energy counter takes 3 ms on
  /// an H100).
  void (*read)(const NvmlGpu& gpu, GpuValues& values);
  /// In the order of JSON and metrics. None for what is no number, and where another sensor yields the same better.
  std::vector<GpuQuantity> quantities;
  /// Read only if this sensor, which is in the row before, returned nothing.
  std::optional<GpuFeature> stand_in_for = std::nullopt;
};

/// Every sensor, in the order in which they are asked. All that reads, publishes and names sensors goes through this
/// table. CONTRIBUTING.md, "Add a sensor", lists what a new row needs in other places.
[[nodiscard]] const std::vector<GpuSensor>& gpu_sensors();

}  // namespace lowgear::gpu
