#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gpu/gpu_error.h"
#include "gpu/nvml_abi.h"

namespace lowgear {

/// NVML's functions as found in the library at hand; a null pointer where the driver is too old (or too new) to have
/// one. Names are NVML's without prefix and version.
struct NvmlFunctions {
  using Return = nvml::Return;
  using Device = nvml::Device;

  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*system_get_driver_version)(char*, unsigned) = nullptr;
  Return (*device_get_count)(unsigned*) = nullptr;
  Return (*device_get_handle_by_index)(unsigned, Device*) = nullptr;
  Return (*device_get_name)(Device, char*, unsigned) = nullptr;
  Return (*device_get_uuid)(Device, char*, unsigned) = nullptr;
  Return (*device_get_pci_info)(Device, nvml::PciInfo*) = nullptr;
  Return (*device_get_mig_mode)(Device, unsigned*, unsigned*) = nullptr;

  Return (*device_get_total_energy_consumption)(Device, unsigned long long*) = nullptr;
  Return (*device_get_power_usage)(Device, unsigned*) = nullptr;
  Return (*device_get_field_values)(Device, int, nvml::FieldValue*) = nullptr;
  Return (*device_get_clock_info)(Device, nvml::ClockType, unsigned*) = nullptr;
  Return (*device_get_temperature)(Device, int, unsigned*) = nullptr;
  Return (*device_get_clocks_event_reasons)(Device, unsigned long long*) = nullptr;
  Return (*device_get_utilization_rates)(Device, nvml::Utilization*) = nullptr;
  Return (*device_get_supported_memory_clocks)(Device, unsigned*, unsigned*) = nullptr;
  Return (*device_get_supported_graphics_clocks)(Device, unsigned, unsigned*, unsigned*) = nullptr;
  Return (*device_get_power_management_limit)(Device, unsigned*) = nullptr;
  Return (*device_get_power_management_limit_constraints)(Device, unsigned*, unsigned*) = nullptr;
  Return (*device_get_power_management_default_limit)(Device, unsigned*) = nullptr;
  Return (*device_get_enforced_power_limit)(Device, unsigned*) = nullptr;
  Return (*device_get_persistence_mode)(Device, unsigned*) = nullptr;

  Return (*device_set_gpu_locked_clocks)(Device, unsigned, unsigned) = nullptr;
  Return (*device_reset_gpu_locked_clocks)(Device) = nullptr;
  Return (*device_set_memory_locked_clocks)(Device, unsigned, unsigned) = nullptr;
  Return (*device_reset_memory_locked_clocks)(Device) = nullptr;
  Return (*device_set_power_management_limit)(Device, unsigned) = nullptr;
  Return (*device_set_persistence_mode)(Device, unsigned) = nullptr;
};

/// NVML, loaded and initialised as long as this lives.
class NvmlLibrary {
 public:
  /// Loads the library that the environment variable LOWGEAR_NVML names, or the system's libnvidia-ml.so.1. Throws
  /// GpuError (driver_missing) when there is none, it lacks what every version has, or the driver is not running.
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

 private:
  struct Closer {
    void operator()(void* handle) const;
  };

  void find_functions();
  void initialise();

  std::unique_ptr<void, Closer> handle_;
  NvmlFunctions functions_;
  std::string path_;
  std::string driver_version_;
  bool simulated_ = false;
};

/// What a return code means to a caller.
[[nodiscard]] GpuErrorCode gpu_error_code(nvml::Return code);

}  // namespace lowgear
