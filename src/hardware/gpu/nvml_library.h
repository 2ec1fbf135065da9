#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "hardware/gpu/gpu.h"
#include "hardware/gpu/nvml_abi.h"

namespace lowgear::gpu {

/// A function of the loaded library; null when the driver is too old (or too new).
template <typename... Parameters>
struct NvmlFunction {
  nvml::Return (*pointer)(Parameters...) = nullptr;
  const char* symbol = "";  ///< the name that was found, or the newest name that was missing

  explicit operator bool() const { return pointer != nullptr; }
  nvml::Return operator()(Parameters... parameters) const { return pointer(parameters...); }
};

/// NVML's functions, a field for each used one; names are NVML's without prefix and version.
struct NvmlFunctions {
  using Device = nvml::Device;

  NvmlFunction<> init;
  NvmlFunction<> shutdown;
  const char* (*error_string)(nvml::Return) = nullptr;
  NvmlFunction<char*, unsigned> system_get_driver_version;
  NvmlFunction<unsigned*> device_get_count;
  NvmlFunction<unsigned, Device*> device_get_handle_by_index;
  NvmlFunction<Device, char*, unsigned> device_get_name;
  NvmlFunction<Device, char*, unsigned> device_get_uuid;
  NvmlFunction<Device, nvml::PciInfo*> device_get_pci_info;
  NvmlFunction<Device, unsigned*, unsigned*> device_get_mig_mode;
  NvmlFunction<Device, unsigned*> device_get_compute_mode;

  NvmlFunction<Device, unsigned long long*> device_get_total_energy_consumption;
  NvmlFunction<Device, unsigned*> device_get_power_usage;
  NvmlFunction<Device, int, nvml::FieldValue*> device_get_field_values;
  NvmlFunction<Device, nvml::ClockType, unsigned*> device_get_clock_info;
  NvmlFunction<Device, nvml::TemperatureV1*> device_get_temperature_v;
  NvmlFunction<Device, int, unsigned*> device_get_temperature;  ///< deprecated since CUDA 13.0
  NvmlFunction<Device, unsigned long long*> device_get_clocks_event_reasons;
  NvmlFunction<Device, nvml::Utilization*> device_get_utilization_rates;
  NvmlFunction<Device, unsigned*, unsigned*> device_get_supported_memory_clocks;
  NvmlFunction<Device, unsigned, unsigned*, unsigned*> device_get_supported_graphics_clocks;
  NvmlFunction<Device, unsigned*> device_get_power_management_limit;
  NvmlFunction<Device, unsigned*, unsigned*> device_get_power_management_limit_constraints;
  NvmlFunction<Device, unsigned*> device_get_power_management_default_limit;
  NvmlFunction<Device, unsigned*> device_get_enforced_power_limit;
  NvmlFunction<Device, unsigned*> device_get_persistence_mode;

  NvmlFunction<Device, unsigned, unsigned> device_set_gpu_locked_clocks;
  NvmlFunction<Device> device_reset_gpu_locked_clocks;
  NvmlFunction<Device, unsigned, unsigned> device_set_memory_locked_clocks;
  NvmlFunction<Device> device_reset_memory_locked_clocks;
  NvmlFunction<Device, nvml::PowerValueV2*> device_set_power_management_limit_v2;
  NvmlFunction<Device, unsigned> device_set_power_management_limit;
  NvmlFunction<Device, unsigned> device_set_persistence_mode;

  // Since CUDA 12.8; `update_profiles` since 13.1, which deprecates `set` and `clear`.
  NvmlFunction<Device, nvml::WorkloadPowerProfilesInfoV1*> device_workload_power_profile_get_profiles_info;
  NvmlFunction<Device, nvml::WorkloadPowerProfilesCurrentV1*> device_workload_power_profile_get_current_profiles;
  NvmlFunction<Device, nvml::WorkloadPowerProfileUpdateV1*> device_workload_power_profile_update_profiles;
  NvmlFunction<Device, nvml::WorkloadPowerProfileRequestV1*> device_workload_power_profile_set_requested_profiles;
  NvmlFunction<Device, nvml::WorkloadPowerProfileRequestV1*> device_workload_power_profile_clear_requested_profiles;
  NvmlFunction<Device, nvml::PowerSmoothingStateV1*> device_power_smoothing_set_state;
  NvmlFunction<Device, nvml::PowerSmoothingProfileV1*> device_power_smoothing_activate_preset;
};

/// NVML, loaded and initialised for the lifetime of this object. A forked child does not use it, because it belongs to
/// the parent; the child may open NVML again.
class NvmlLibrary {
 public:
  /// Loads the library that the environment variable LOWGEAR_NVML names, or the system's libnvidia-ml.so.1. Throws
  /// GpuError (driver_missing) without a library, when it lacks a basic function, or when no driver is running.
  static std::shared_ptr<const NvmlLibrary> open();
  /// Loads this file. Throws as `open`.
  explicit NvmlLibrary(const std::string& file);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  [[nodiscard]] const NvmlFunctions& functions() const { return functions_; }
  /// Path of the file that was loaded.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }
  /// Whether this is Lowgear's simulation.
  [[nodiscard]] bool simulated() const { return simulated_; }

  /// The driver's own words for a return code.
  [[nodiscard]] std::string describe(nvml::Return code) const;
  /// Throws GpuError unless `code` is success: "GPU: what: the driver's words; what to do".
  void check(nvml::Return code, std::string_view gpu, std::string_view what) const;

  /// Calls a function and throws GpuError when the library lacks it or it fails.
  template <typename... Parameters, typename... Arguments>
  void call(std::string_view gpu, std::string_view what, const NvmlFunction<Parameters...>& function,
            Arguments... arguments) const {
    require(function, gpu, what);
    check(function(arguments...), gpu, what);
  }
  /// Throws GpuError (not_supported) when the library lacks this function.
  template <typename... Parameters>
  void require(const NvmlFunction<Parameters...>& function, std::string_view gpu, std::string_view what) const {
    if (!function) throw_lacking(function.symbol, gpu, what);
  }

 private:
  struct Closer {
    void operator()(void* handle) const;
  };

  void find_functions();
  void find_power_features();
  void initialise();
  [[noreturn]] void throw_lacking(const char* symbol, std::string_view gpu, std::string_view what) const;

  std::unique_ptr<void, Closer> handle_;
  NvmlFunctions functions_;
  std::string path_;
  std::string driver_version_;
  bool simulated_ = false;
  pid_t opener_;
};

/// The error code of a return code.
[[nodiscard]] GpuErrorCode gpu_error_code(nvml::Return code);
/// Whether an older form of a call may do what its newest form did not.
[[nodiscard]] bool is_unknown_form(nvml::Return code);

}  // namespace lowgear::gpu
