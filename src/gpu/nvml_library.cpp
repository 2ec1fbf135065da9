#include "gpu/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <initializer_list>

namespace lowgear {
namespace {

/// What to do about an error; empty where there is nothing more to say.
std::string_view advice(GpuErrorCode code) {
  switch (code) {
    case GpuErrorCode::no_permission:
      return "clocks and limits are for root alone: let the agent set them (lowgear agent)";
    case GpuErrorCode::gpu_lost:
      return "the GPU is gone until the driver is reloaded or the machine is rebooted";
    case GpuErrorCode::driver_missing:
      return "check the driver with nvidia-smi";
    case GpuErrorCode::timeout:
      return "the driver hangs; look at the kernel's log for Xid errors";
    case GpuErrorCode::not_supported:
    case GpuErrorCode::invalid_value:
    case GpuErrorCode::driver_error:
      return "";
  }
  return "";
}

[[noreturn]] void throw_missing(const std::string& file, std::string_view why) {
  throw GpuError(GpuErrorCode::driver_missing,
                 fmt::format("{}: {}; install NVIDIA's driver, or name its NVML library by LOWGEAR_NVML", file, why));
}

/// Puts the first of these symbols that the library has into `function`.
template <typename Function>
void find(void* library, Function*& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function != nullptr) return;
  }
}

std::string path_of(void* library, const std::string& file) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) return map->l_name;
  return file;
}

}  // namespace

GpuErrorCode gpu_error_code(nvml::Return code) {
  switch (code) {
    case nvml::Return::not_supported:
    case nvml::Return::function_not_found:
    case nvml::Return::argument_version_mismatch:
    case nvml::Return::no_data:
      return GpuErrorCode::not_supported;
    case nvml::Return::no_permission:
    case nvml::Return::operating_system:
      return GpuErrorCode::no_permission;
    case nvml::Return::invalid_argument:
    case nvml::Return::frequency_not_supported:
    case nvml::Return::insufficient_size:
    case nvml::Return::not_found:
      return GpuErrorCode::invalid_value;
    case nvml::Return::gpu_is_lost:
    case nvml::Return::reset_required:
      return GpuErrorCode::gpu_lost;
    case nvml::Return::timeout:
      return GpuErrorCode::timeout;
    case nvml::Return::uninitialized:
    case nvml::Return::driver_not_loaded:
    case nvml::Return::library_not_found:
    case nvml::Return::library_version_mismatch:
      return GpuErrorCode::driver_missing;
    case nvml::Return::success:
    case nvml::Return::in_use:
    case nvml::Return::insufficient_resources:
    case nvml::Return::unknown:
      return GpuErrorCode::driver_error;
  }
  return GpuErrorCode::driver_error;
}

void NvmlLibrary::Closer::operator()(void* handle) const { dlclose(handle); }

std::shared_ptr<const NvmlLibrary> NvmlLibrary::open() {
  const char* file = std::getenv("LOWGEAR_NVML");  // NOLINT(concurrency-mt-unsafe): nothing here sets the environment
  return std::make_shared<const NvmlLibrary>(file != nullptr && *file != '\0' ? file : "libnvidia-ml.so.1");
}

NvmlLibrary::NvmlLibrary(const std::string& file) : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) throw_missing(file, "there is no such library");
  path_ = path_of(handle_.get(), file);
  simulated_ = dlsym(handle_.get(), "lowgear_simgpu_version") != nullptr;
  find_functions();
  initialise();
}

NvmlLibrary::~NvmlLibrary() {
  if (functions_.shutdown != nullptr) functions_.shutdown();
}

// Where NVML has changed a call, the newest form that drivers from 470 on share with ours comes first.
void NvmlLibrary::find_functions() {
  void* library = handle_.get();
  NvmlFunctions& f = functions_;
  find(library, f.init, {"nvmlInit_v2", "nvmlInit"});
  find(library, f.shutdown, {"nvmlShutdown"});
  find(library, f.error_string, {"nvmlErrorString"});
  find(library, f.system_get_driver_version, {"nvmlSystemGetDriverVersion"});
  find(library, f.device_get_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(library, f.device_get_handle_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(library, f.device_get_name, {"nvmlDeviceGetName"});
  find(library, f.device_get_uuid, {"nvmlDeviceGetUUID"});
  find(library, f.device_get_pci_info, {"nvmlDeviceGetPciInfo_v3"});
  find(library, f.device_get_mig_mode, {"nvmlDeviceGetMigMode"});
  find(library, f.device_get_total_energy_consumption, {"nvmlDeviceGetTotalEnergyConsumption"});
  find(library, f.device_get_power_usage, {"nvmlDeviceGetPowerUsage"});
  find(library, f.device_get_field_values, {"nvmlDeviceGetFieldValues"});
  find(library, f.device_get_clock_info, {"nvmlDeviceGetClockInfo"});
  find(library, f.device_get_temperature, {"nvmlDeviceGetTemperature"});
  find(library, f.device_get_clocks_event_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(library, f.device_get_utilization_rates, {"nvmlDeviceGetUtilizationRates"});
  find(library, f.device_get_supported_memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
  find(library, f.device_get_supported_graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
  find(library, f.device_get_power_management_limit, {"nvmlDeviceGetPowerManagementLimit"});
  find(library, f.device_get_power_management_limit_constraints, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  find(library, f.device_get_power_management_default_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  find(library, f.device_get_enforced_power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  find(library, f.device_get_persistence_mode, {"nvmlDeviceGetPersistenceMode"});
  find(library, f.device_set_gpu_locked_clocks, {"nvmlDeviceSetGpuLockedClocks"});
  find(library, f.device_reset_gpu_locked_clocks, {"nvmlDeviceResetGpuLockedClocks"});
  find(library, f.device_set_memory_locked_clocks, {"nvmlDeviceSetMemoryLockedClocks"});
  find(library, f.device_reset_memory_locked_clocks, {"nvmlDeviceResetMemoryLockedClocks"});
  find(library, f.device_set_power_management_limit, {"nvmlDeviceSetPowerManagementLimit"});
  find(library, f.device_set_persistence_mode, {"nvmlDeviceSetPersistenceMode"});
  if (f.init == nullptr || f.device_get_count == nullptr || f.device_get_handle_by_index == nullptr ||
      f.device_get_uuid == nullptr || f.device_get_pci_info == nullptr || f.device_get_name == nullptr) {
    throw_missing(path_, "is no NVML library of driver 470 or newer");
  }
}

void NvmlLibrary::initialise() {
  if (const nvml::Return code = functions_.init(); code != nvml::Return::success) {
    throw_missing(path_, fmt::format("the driver does not answer ({})", describe(code)));
  }
  std::array<char, nvml::kDriverVersionBytes> version{};
  if (functions_.system_get_driver_version != nullptr &&
      functions_.system_get_driver_version(version.data(), version.size()) == nvml::Return::success) {
    driver_version_ = version.data();
  }
}

std::string NvmlLibrary::describe(nvml::Return code) const {
  const char* words = functions_.error_string != nullptr ? functions_.error_string(code) : nullptr;
  return words != nullptr ? words : fmt::format("NVML error {}", static_cast<int>(code));
}

void NvmlLibrary::check(nvml::Return code, std::string_view gpu, std::string_view what) const {
  if (code == nvml::Return::success) return;
  const GpuErrorCode kind = gpu_error_code(code);
  const std::string_view fix = advice(kind);
  throw GpuError(kind, fmt::format("GPU {}: {}: {}{}{}", gpu, what, describe(code), fix.empty() ? "" : "; ", fix));
}

}  // namespace lowgear
