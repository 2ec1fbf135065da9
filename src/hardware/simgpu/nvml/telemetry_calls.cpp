#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "hardware/simgpu/nvml/session.h"

// Calls about what a GPU does now: energy, power, clocks, heat, load, memory, processes.

namespace lowgear::simgpu::nvml {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
/// Memory that the driver reserves on an H100 (nvidia-smi -q), and memory of a CUDA context there.
constexpr std::uint64_t kReservedBytes = 480 * kMebibyte;
constexpr std::uint64_t kContextBytes = 520 * kMebibyte;

std::uint64_t thousandths(double value) { return static_cast<std::uint64_t>(std::llround(std::max(0.0, value) * 1e3)); }

MemoryV2 memory_of(SimulatedGpu& gpu) {
  MemoryV2 memory{};
  memory.version = struct_version<MemoryV2>(2);
  memory.total = gpu.model().memory_bytes;
  memory.reserved = std::min(kReservedBytes, memory.total);
  memory.used = std::min(kContextBytes * gpu.context_pids().size(), memory.total - memory.reserved);
  memory.free = memory.total - memory.reserved - memory.used;
  return memory;
}

/// Clock of a domain now; the graphics clock and the SM clock are one.
int clock_now_mhz(SimulatedGpu& gpu, ClockType type) {
  return type == ClockType::memory ? gpu.readings().memory_clock_mhz : gpu.readings().sm_clock_mhz;
}
int highest_clock_mhz(const SimulatedGpuModel& model, ClockType type) {
  return type == ClockType::memory ? model.memory_clocks_mhz.front() : model.sm_clocks.max_mhz;
}
bool is_known(ClockType type) {
  return type == ClockType::graphics || type == ClockType::sm || type == ClockType::memory;
}

Return give_clock(Device device, std::string_view call, ClockType type, unsigned* clock_mhz, bool highest) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) {
    if (type == ClockType::video) return Return::not_supported;
    if (!is_known(type)) return Return::invalid_argument;
    return give(clock_mhz, highest ? highest_clock_mhz(gpu.model(), type) : clock_now_mhz(gpu, type));
  });
}

/// Fills an array whose capacity comes in `count`, as NVML does: the true count goes out, also when it does not fit.
template <typename Fill>
Return give_list(unsigned* count, bool has_room, std::size_t size, Fill&& fill) {
  if (count == nullptr) return Return::invalid_argument;
  const unsigned capacity = *count;
  *count = static_cast<unsigned>(size);
  if (size > capacity) return Return::insufficient_size;
  if (size > 0 && !has_room) return Return::invalid_argument;
  fill();
  return Return::success;
}

template <typename Info>
Return give_processes(Device device, std::string_view call, unsigned* count, Info* infos) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) {
    const std::vector<std::uint32_t> pids = gpu.context_pids();
    return give_list(count, infos != nullptr, pids.size(), [&] {
      for (std::size_t i = 0; i < pids.size(); ++i) {
        Info info{};
        info.pid = pids[i];
        info.used_gpu_memory = kContextBytes;
        if constexpr (requires { info.gpu_instance_id; }) {
          info.gpu_instance_id = info.compute_instance_id = kNoInstance;
        }
        infos[i] = info;
      }
    });
  });
}

/// Load of an engine that no kernel here uses.
Return give_engine_load(Device device, std::string_view call, unsigned* percent, unsigned* period_us) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) {
    const Return first = give(percent, 0);
    return first == Return::success ? give(period_us, gpu.model().sensors.utilisation_period_s * 1e6) : first;
  });
}

template <typename PowerOf>
Return give_milliwatts(Device device, std::string_view call, unsigned* power_mw, PowerOf power_w_of) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) { return give(power_mw, thousandths(power_w_of(gpu))); });
}

/// Whether a field can be asked for in the scope that was given, which fields of power, energy and power limits have.
/// As driver 580.159.04 answers on an H200, but for the power of the memory, which is not simulated: an H200 tells its
/// average.
Return check_scope(const FieldValue& field) {
  const bool has_scope = field.field_id >= kFieldAveragePower && field.field_id <= kFieldRequestedPowerLimit;
  if (!has_scope || field.scope_id == kPowerScopeGpu) return Return::success;
  const bool is_power = field.field_id == kFieldAveragePower || field.field_id == kFieldInstantPower;
  if (field.field_id == kFieldEnergy || field.scope_id == kPowerScopeModule ||
      (is_power && field.scope_id == kPowerScopeMemory)) {
    return Return::not_supported;
  }
  return Return::invalid_argument;
}

/// Puts the value of a field of power smoothing into it; a field of a preset names the preset by its scope. The values
/// are made up. The floor is not reported, as nothing enforces one here.
Return read_smoothing_field(SimulatedGpu& gpu, FieldValue& field) {
  const SimulatedGpuModel& model = gpu.model();
  const int presets = model.power_features.smoothing_presets;
  if (presets == 0) return Return::not_supported;
  constexpr unsigned kFloorPercent = 50;
  constexpr unsigned kRampMwPerS = 100'000;
  constexpr unsigned kDelayMs = 500;
  const auto give_number = [&](double value) {
    field.value_type = ValueType::unsigned_integer;
    field.value.unsigned_integer = static_cast<std::uint32_t>(std::lround(value));
    return Return::success;
  };
  const auto give_of_preset = [&](unsigned value_of_first) {
    if (field.scope_id >= static_cast<unsigned>(presets)) return Return::invalid_argument;
    return give_number(value_of_first * (field.scope_id + 1));
  };
  switch (field.field_id) {
    case kFieldSmoothingEnabled:
      return give_number(gpu.readings().power_smoothing ? 1 : 0);
    case kFieldSmoothingCeiling:
      return give_number(model.power_limit_max_w);
    case kFieldSmoothingLifetimeLeft:
      return give_number(100);
    case kFieldSmoothingPresets:
      return give_number(presets);
    case kFieldSmoothingActivePreset:
      return give_number(gpu.readings().power_smoothing_preset);
    case kFieldSmoothingPresetFloor:
      return field.scope_id < static_cast<unsigned>(presets) ? give_number(kFloorPercent) : Return::invalid_argument;
    case kFieldSmoothingPresetRampUp:
    case kFieldSmoothingPresetRampDown:
      return give_of_preset(kRampMwPerS);
    case kFieldSmoothingPresetRampDownDelay:
      return give_of_preset(kDelayMs);
    default:
      return Return::not_supported;
  }
}

/// Puts the value of a field into it.
Return read_field(SimulatedGpu& gpu, FieldValue& field) {
  const auto give_milliwatts = [&](double power_w) {
    field.value_type = ValueType::unsigned_integer;
    field.value.unsigned_integer = static_cast<std::uint32_t>(thousandths(power_w));
    return Return::success;
  };
  const auto give_millijoules = [&](double energy_j) {
    field.value_type = ValueType::unsigned_long_long;
    field.value.unsigned_long = thousandths(energy_j);
    return Return::success;
  };
  field.value.unsigned_long = 0;
  if (const Return code = check_scope(field); code != Return::success) return code;
  switch (field.field_id) {
    case kFieldTotalEnergy:
    case kFieldEnergy:
      return give_millijoules(gpu.readings().energy_counter_j);
    case kFieldAveragePower:
      return give_milliwatts(gpu.readings().average_power_w);
    case kFieldInstantPower:
      return give_milliwatts(gpu.readings().instant_power_w);
    case kFieldMinPowerLimit:
      return give_milliwatts(gpu.model().power_limit_min_w);
    case kFieldMaxPowerLimit:
      return give_milliwatts(gpu.model().power_limit_max_w);
    case kFieldDefaultPowerLimit:
      return give_milliwatts(gpu.model().power.limit_w);
    case kFieldCurrentPowerLimit:
    case kFieldRequestedPowerLimit:
      return give_milliwatts(gpu.readings().power_limit_w);
    default:
      return read_smoothing_field(gpu, field);
  }
}

std::int64_t unix_time_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

LOWGEAR_NVML nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* energy_mj) {
  return answer_for(device, "DeviceGetTotalEnergyConsumption",
                    [&](SimulatedGpu& gpu) { return give(energy_mj, thousandths(gpu.readings().energy_counter_j)); });
}
LOWGEAR_NVML nvmlDeviceGetPowerUsage(Device device, unsigned* power_mw) {
  return give_milliwatts(device, "DeviceGetPowerUsage", power_mw,
                         [](SimulatedGpu& gpu) { return gpu.readings().average_power_w; });
}
LOWGEAR_NVML nvmlDeviceGetFieldValues(Device device, int count, FieldValue* fields) {
  return answer_for(device, "DeviceGetFieldValues", [&](SimulatedGpu& gpu) {
    if (count <= 0 || fields == nullptr) return Return::invalid_argument;
    for (int i = 0; i < count; ++i) {
      fields[i].timestamp_us = unix_time_us();
      fields[i].latency_us = 0;
      fields[i].result = read_field(gpu, fields[i]);
    }
    return Return::success;
  });
}

LOWGEAR_NVML nvmlDeviceGetClockInfo(Device device, ClockType type, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetClockInfo", type, clock_mhz, false);
}
LOWGEAR_NVML nvmlDeviceGetMaxClockInfo(Device device, ClockType type, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetMaxClockInfo", type, clock_mhz, true);
}
LOWGEAR_NVML nvmlDeviceGetMaxCustomerBoostClock(Device device, ClockType type, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetMaxCustomerBoostClock", type, clock_mhz, true);
}
LOWGEAR_NVML nvmlDeviceGetApplicationsClock(Device device, ClockType type, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetApplicationsClock", type, clock_mhz, true);
}
LOWGEAR_NVML nvmlDeviceGetDefaultApplicationsClock(Device device, ClockType type, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetDefaultApplicationsClock", type, clock_mhz, true);
}
LOWGEAR_NVML nvmlDeviceGetClock(Device device, ClockType type, ClockId id, unsigned* clock_mhz) {
  return give_clock(device, "DeviceGetClock", type, clock_mhz, id != ClockId::current);
}
LOWGEAR_NVML nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned* count, unsigned* clocks_mhz) {
  return answer_for(device, "DeviceGetSupportedMemoryClocks", [&](SimulatedGpu& gpu) {
    const auto clocks = gpu.model().supported_memory_clocks_mhz();
    return give_list(count, clocks_mhz != nullptr, clocks.size(), [&] { std::ranges::copy(clocks, clocks_mhz); });
  });
}
LOWGEAR_NVML nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory_clock_mhz, unsigned* count,
                                                  unsigned* clocks_mhz) {
  return answer_for(device, "DeviceGetSupportedGraphicsClocks", [&](SimulatedGpu& gpu) {
    const auto memory_clocks = gpu.model().supported_memory_clocks_mhz();
    if (std::ranges::find(memory_clocks, static_cast<int>(memory_clock_mhz)) == memory_clocks.end()) {
      return Return::not_found;
    }
    const ClockRange& range = gpu.model().sm_clocks;
    return give_list(count, clocks_mhz != nullptr, static_cast<std::size_t>(range.count()), [&] {
      for (int i = 0; i < range.count(); ++i) {
        clocks_mhz[i] = static_cast<unsigned>(range.max_mhz - i * range.step_mhz);
      }
    });
  });
}
LOWGEAR_NVML nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return answer_for(device, "DeviceGetCurrentClocksThrottleReasons",
                    [&](SimulatedGpu& gpu) { return give(reasons, gpu.readings().throttle_reasons); });
}
LOWGEAR_NVML nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
LOWGEAR_NVML nvmlDeviceGetSupportedClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return answer_for(device, "DeviceGetSupportedClocksThrottleReasons",
                    [&](SimulatedGpu&) { return give(reasons, 0x1ff); });
}
LOWGEAR_NVML nvmlDeviceGetSupportedClocksEventReasons(Device device, unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksThrottleReasons(device, reasons);
}
LOWGEAR_NVML nvmlDeviceGetPerformanceState(Device device, unsigned* state) {
  return answer_for(device, "DeviceGetPerformanceState", [&](SimulatedGpu&) { return give(state, 0); });
}
LOWGEAR_NVML nvmlDeviceGetPowerState(Device device, unsigned* state) {
  return nvmlDeviceGetPerformanceState(device, state);
}

LOWGEAR_NVML nvmlDeviceGetTemperature(Device device, int sensor, unsigned* temperature_c) {
  return answer_for(device, "DeviceGetTemperature", [&](SimulatedGpu& gpu) {
    if (sensor != kTemperatureOfGpu) return Return::invalid_argument;
    return give(temperature_c, gpu.readings().temperature_c);
  });
}
LOWGEAR_NVML nvmlDeviceGetTemperatureV(Device device, TemperatureV1* temperature) {
  return answer_for(device, "DeviceGetTemperature", [&](SimulatedGpu& gpu) {
    if (temperature == nullptr) return Return::invalid_argument;
    if (temperature->version != struct_version<TemperatureV1>(1)) {
      return Return::argument_version_mismatch;
    }
    if (temperature->sensor != kTemperatureOfGpu) return Return::invalid_argument;
    return give(&temperature->temperature_c, gpu.readings().temperature_c);
  });
}
LOWGEAR_NVML nvmlDeviceGetTemperatureThreshold(Device device, TemperatureThreshold threshold, unsigned* limit_c) {
  return answer_for(device, "DeviceGetTemperatureThreshold", [&](SimulatedGpu& gpu) {
    const ThermalModel& thermal = gpu.model().thermal;
    switch (threshold) {
      case TemperatureThreshold::shutdown:
        return give(limit_c, thermal.shutdown_c);
      case TemperatureThreshold::slowdown:
        return give(limit_c, thermal.slowdown_hardware_c);
      case TemperatureThreshold::memory_max:
        return give(limit_c, thermal.memory_max_c);
      case TemperatureThreshold::gpu_max:
        return give(limit_c, thermal.slowdown_software_c);
    }
    return Return::not_supported;
  });
}
LOWGEAR_NVML nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  return answer_for(device, "DeviceGetUtilizationRates", [&](SimulatedGpu& gpu) {
    return give(rates, Utilization{.gpu = static_cast<std::uint32_t>(gpu.readings().gpu_utilisation_percent),
                                   .memory = static_cast<std::uint32_t>(gpu.readings().memory_utilisation_percent)});
  });
}

LOWGEAR_NVML nvmlDeviceGetEncoderUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return give_engine_load(device, "DeviceGetEncoderUtilization", percent, period_us);
}
LOWGEAR_NVML nvmlDeviceGetDecoderUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return give_engine_load(device, "DeviceGetDecoderUtilization", percent, period_us);
}
LOWGEAR_NVML nvmlDeviceGetJpgUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return give_engine_load(device, "DeviceGetJpgUtilization", percent, period_us);
}
LOWGEAR_NVML nvmlDeviceGetOfaUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return give_engine_load(device, "DeviceGetOfaUtilization", percent, period_us);
}

LOWGEAR_NVML nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return answer_for(device, "DeviceGetMemoryInfo", [&](SimulatedGpu& gpu) {
    const MemoryV2 now = memory_of(gpu);
    return give(memory, Memory{.total = now.total, .free = now.free, .used = now.used + now.reserved});
  });
}
LOWGEAR_NVML nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return answer_for(device, "DeviceGetMemoryInfo", [&](SimulatedGpu& gpu) {
    if (memory == nullptr) return Return::invalid_argument;
    if (memory->version != struct_version<MemoryV2>(2)) return Return::argument_version_mismatch;
    return give(memory, memory_of(gpu));
  });
}
LOWGEAR_NVML nvmlDeviceGetBAR1MemoryInfo(Device device, Bar1Memory* memory) {
  return answer_for(device, "DeviceGetBAR1MemoryInfo", [&](SimulatedGpu&) {
    constexpr std::uint64_t kTotal = 131072 * kMebibyte;
    return give(memory, Bar1Memory{.total = kTotal, .free = kTotal - kMebibyte, .used = kMebibyte});
  });
}

LOWGEAR_NVML nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, ProcessInfoV1* infos) {
  return give_processes(device, "DeviceGetComputeRunningProcesses", count, infos);
}
LOWGEAR_NVML nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, ProcessInfo* infos) {
  return give_processes(device, "DeviceGetComputeRunningProcesses", count, infos);
}
LOWGEAR_NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
  return give_processes(device, "DeviceGetComputeRunningProcesses", count, infos);
}
LOWGEAR_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* /*infos*/) {
  return answer_for(device, "DeviceGetGraphicsRunningProcesses", [&](SimulatedGpu&) { return give(count, 0); });
}

LOWGEAR_NVML nvmlDeviceGetPersistenceMode(Device device, unsigned* mode) {
  return answer_for(device, "DeviceGetPersistenceMode", [&](SimulatedGpu& gpu) {
    return give(mode, gpu.readings().persistence_mode ? kEnabled : kDisabled);
  });
}
LOWGEAR_NVML nvmlDeviceGetPowerManagementMode(Device device, unsigned* mode) {
  return answer_for(device, "DeviceGetPowerManagementMode", [&](SimulatedGpu&) { return give(mode, kEnabled); });
}
LOWGEAR_NVML nvmlDeviceGetPowerManagementLimit(Device device, unsigned* limit_mw) {
  return give_milliwatts(device, "DeviceGetPowerManagementLimit", limit_mw,
                         [](SimulatedGpu& gpu) { return gpu.readings().power_limit_w; });
}
LOWGEAR_NVML nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* limit_mw) {
  return give_milliwatts(device, "DeviceGetEnforcedPowerLimit", limit_mw,
                         [](SimulatedGpu& gpu) { return gpu.readings().power_limit_w; });
}
LOWGEAR_NVML nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* limit_mw) {
  return give_milliwatts(device, "DeviceGetPowerManagementDefaultLimit", limit_mw,
                         [](SimulatedGpu& gpu) { return gpu.model().power.limit_w; });
}
LOWGEAR_NVML nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned* min_mw, unsigned* max_mw) {
  return answer_for(device, "DeviceGetPowerManagementLimitConstraints", [&](SimulatedGpu& gpu) {
    const Return first = give(min_mw, thousandths(gpu.model().power_limit_min_w));
    return first == Return::success ? give(max_mw, thousandths(gpu.model().power_limit_max_w)) : first;
  });
}

}  // namespace lowgear::simgpu::nvml
