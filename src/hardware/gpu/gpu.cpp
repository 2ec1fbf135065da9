#include "hardware/gpu/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdint>
#include <utility>

#include "base/core/text.h"
#include "base/core/units.h"
#include "hardware/gpu/nvml_gpu.h"

namespace lowgear::gpu {

namespace {

constexpr double kJoulesPerMillijoule = 1e-3;
constexpr double kHertzPerMegahertz = 1e6;
constexpr double kRatioPerPercent = 0.01;

const NvmlFunctions& functions(const NvmlGpu& gpu) { return gpu.library().functions(); }

void read_energy(const NvmlGpu& gpu, GpuValues& values) {
  unsigned long long energy_mj = 0;
  gpu.call("energy counter", functions(gpu).device_get_total_energy_consumption, &energy_mj);
  values.energy_j = static_cast<double>(energy_mj) * kJoulesPerMillijoule;
}

void read_instant_power(const NvmlGpu& gpu, GpuValues& values) {
  nvml::FieldValue field{};
  field.field_id = nvml::kFieldInstantPower;
  gpu.call("instant power", functions(gpu).device_get_field_values, 1, &field);
  gpu.library().check(field.result, gpu.identity().uuid, "instant power");
  const bool wide =
      field.value_type == nvml::ValueType::unsigned_long || field.value_type == nvml::ValueType::unsigned_long_long;
  // NVML's machines are little-endian: a narrow value is the low half.
  const auto bits = std::bit_cast<std::uint64_t>(field.value);
  const std::uint64_t power_mw = wide ? bits : bits & 0xffffffffU;
  values.power_w = static_cast<double>(power_mw) * kWattsPerMilliwatt;
}

void read_average_power(const NvmlGpu& gpu, GpuValues& values) {
  unsigned power_mw = 0;
  gpu.call("average power", functions(gpu).device_get_power_usage, &power_mw);
  values.power_w = power_mw * kWattsPerMilliwatt;
}

void read_sm_clock(const NvmlGpu& gpu, GpuValues& values) {
  unsigned clock_mhz = 0;
  gpu.call("SM clock", functions(gpu).device_get_clock_info, nvml::ClockType::sm, &clock_mhz);
  values.sm_clock_mhz = static_cast<int>(clock_mhz);
}

void read_memory_clock(const NvmlGpu& gpu, GpuValues& values) {
  unsigned clock_mhz = 0;
  gpu.call("memory clock", functions(gpu).device_get_clock_info, nvml::ClockType::memory, &clock_mhz);
  values.memory_clock_mhz = static_cast<int>(clock_mhz);
}

void read_temperature(const NvmlGpu& gpu, GpuValues& values) {
  const NvmlFunctions& f = functions(gpu);
  if (f.device_get_temperature_v) {
    nvml::TemperatureV1 temperature{};
    temperature.version = nvml::struct_version<nvml::TemperatureV1>(1);
    temperature.sensor = nvml::kTemperatureOfGpu;
    const nvml::Return code = gpu.ask(f.device_get_temperature_v, &temperature);
    if (!f.device_get_temperature || !is_unknown_form(code)) {
      gpu.library().check(code, gpu.identity().uuid, "temperature");
      values.temperature_c = temperature.temperature_c;
      return;
    }
  }
  unsigned temperature_c = 0;
  gpu.call("temperature", f.device_get_temperature, nvml::kTemperatureOfGpu, &temperature_c);
  values.temperature_c = static_cast<int>(temperature_c);
}

void read_utilisation(const NvmlGpu& gpu, GpuValues& values) {
  nvml::Utilization rates{};
  gpu.call("utilisation", functions(gpu).device_get_utilization_rates, &rates);
  values.gpu_utilisation_percent = static_cast<int>(rates.gpu);
  values.memory_utilisation_percent = static_cast<int>(rates.memory);
}

void read_throttle_reasons(const NvmlGpu& gpu, GpuValues& values) {
  unsigned long long bits = 0;
  gpu.call("throttle reasons", functions(gpu).device_get_clocks_event_reasons, &bits);
  values.throttle_reasons = ThrottleReasons{.bits = bits};
}

}  // namespace

std::optional<double> GpuQuantity::of(const GpuValues& values) const {
  return std::visit(
      [&](const auto member) {
        return values.*member ? std::optional(static_cast<double>(*(values.*member))) : std::nullopt;
      },
      value);
}

const std::vector<GpuSensor>& gpu_sensors() {
  // Never destroyed: threads that read GPUs may still run when the process exits.
  static const auto& sensors = *new std::vector<GpuSensor>{
      // The counter comes first: callers that need its time take it around this call.
      {.feature = GpuFeature::energy_counter,
       .read = read_energy,
       .quantities = {{.name = "energy_j",
                       .aggregation = GpuAggregation::difference,
                       .value = &GpuValues::energy_j,
                       .metric = "gpu_energy_joules",
                       .help = "Energy since the driver was loaded, by the GPU's counter."}}},
      {.feature = GpuFeature::instant_power,
       .read = read_instant_power,
       .quantities = {{.name = "power_w",
                       .value = &GpuValues::power_w,
                       .metric = "gpu_power_watts",
                       .help = "Power drawn: instant where the GPU reports it, average otherwise."}}},
      {.feature = GpuFeature::average_power,
       .read = read_average_power,
       .quantities = {},
       .stand_in_for = GpuFeature::instant_power},
      {.feature = GpuFeature::sm_clock,
       .read = read_sm_clock,
       .quantities = {{.name = "sm_clock_mhz",
                       .value = &GpuValues::sm_clock_mhz,
                       .metric = "gpu_sm_clock_hertz",
                       .metric_scale = kHertzPerMegahertz,
                       .help = "Clock of the streaming multiprocessors."}}},
      {.feature = GpuFeature::memory_clock,
       .read = read_memory_clock,
       .quantities = {{.name = "memory_clock_mhz",
                       .value = &GpuValues::memory_clock_mhz,
                       .metric = "gpu_memory_clock_hertz",
                       .metric_scale = kHertzPerMegahertz,
                       .help = "Clock of the device memory."}}},
      {.feature = GpuFeature::temperature,
       .read = read_temperature,
       .quantities = {{.name = "temperature_c",
                       .value = &GpuValues::temperature_c,
                       .metric = "gpu_temperature_celsius",
                       .help = "Temperature of the GPU."}}},
      {.feature = GpuFeature::utilisation,
       .read = read_utilisation,
       .quantities = {{.name = "gpu_utilisation_percent",
                       .value = &GpuValues::gpu_utilisation_percent,
                       .metric = "gpu_utilisation_ratio",
                       .metric_scale = kRatioPerPercent,
                       .help = "Share of time in which a kernel ran."},
                      {.name = "memory_utilisation_percent",
                       .value = &GpuValues::memory_utilisation_percent,
                       .metric = "gpu_memory_utilisation_ratio",
                       .metric_scale = kRatioPerPercent,
                       .help = "Share of time in which device memory was used."}}},
      {.feature = GpuFeature::throttle_reasons, .read = read_throttle_reasons, .quantities = {}},
  };
  return sensors;
}

namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// `0000:00:06.0` from `00000000:00:06.0`, `00:06.0` and upper case.
std::string normal_pci_address(std::string_view text) {
  std::string address = lower_case(text);
  if (std::ranges::count(address, ':') == 1) return "0000:" + address;
  if (address.starts_with("0000") && address.find(':') == 8) address.erase(0, 4);
  return address;
}

}  // namespace

std::string_view name(GpuErrorCode code) {
  switch (code) {
    case GpuErrorCode::not_supported:
      return "not_supported";
    case GpuErrorCode::no_permission:
      return "no_permission";
    case GpuErrorCode::invalid_value:
      return "invalid_value";
    case GpuErrorCode::gpu_lost:
      return "gpu_lost";
    case GpuErrorCode::timeout:
      return "timeout";
    case GpuErrorCode::driver_missing:
      return "driver_missing";
    case GpuErrorCode::driver_error:
      return "driver_error";
  }
  return "driver_error";
}

std::string_view name(GpuFeature feature) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"energy_counter", "average_power", "instant_power", "sm_clock", "memory_clock", "temperature",
       "throttle_reasons", "utilisation", "supported_clocks", "power_limits", "persistence_mode", "clock_control",
       "power_control", "workload_power_profiles", "power_smoothing"});
  static_assert(kNames.size() == kGpuFeatureCount);
  return kNames.at(static_cast<std::size_t>(feature));
}

std::string to_string(ThrottleReasons reasons) {
  static constexpr auto kNames = std::to_array<std::pair<std::uint64_t, std::string_view>>({
      {0x1, "idle"},
      {0x2, "clocks set"},
      {0x4, "power cap"},
      {0x8, "hardware slowdown"},
      {0x10, "sync boost"},
      {0x20, "thermal"},
      {0x40, "hardware thermal"},
      {0x80, "power brake"},
      {0x100, "display"},
  });
  std::string text;
  std::uint64_t rest = reasons.bits;
  for (const auto& [bit, words] : kNames) {
    if ((rest & bit) == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", words);
    rest &= ~bit;
  }
  if (rest != 0) text += fmt::format("{}other (0x{:x})", text.empty() ? "" : ", ", rest);
  return text.empty() ? "none" : text;
}

std::string without_gpu_name(std::string_view message, std::string_view uuid) {
  const std::string name = fmt::format("{}: ", uuid);
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

bool is_called(const GpuIdentity& gpu, std::string_view uuid_or_pci_address) {
  return gpu.uuid == normal_gpu_uuid(uuid_or_pci_address) || gpu.pci_address == normal_pci_address(uuid_or_pci_address);
}

Gpu& find_gpu(const GpuSystem& system, std::string_view uuid_or_pci_address) {
  std::string known;
  for (const std::unique_ptr<Gpu>& gpu : system.gpus()) {
    const GpuIdentity& identity = gpu->identity();
    if (is_called(identity, uuid_or_pci_address)) return *gpu;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", identity.uuid, identity.pci_address);
  }
  throw InputError(fmt::format("there is no GPU {}; {}", quote(uuid_or_pci_address),
                               known.empty() ? "this machine has none" : "those of this machine are " + known));
}

}  // namespace lowgear::gpu
