#include "hardware/gpu/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

#include "hardware/gpu/gpu_setting.h"

namespace lowgear::gpu {
namespace {

/// What changes a GPU; all other calls read.
bool is_setting(std::string_view what) {
  static constexpr auto kSettings = std::to_array(
      {LockSmClocks::kName, ResetSmClocks::kName, LockMemoryClocks::kName, ResetMemoryClocks::kName,
       SetPowerLimit::kName, SetPersistenceMode::kName, RequestWorkloadPowerProfiles::kName, SetPowerSmoothing::kName});
  return std::ranges::find(kSettings, what) != kSettings.end();
}

/// What to do about an error of this call; empty where there is nothing more to say.
std::string_view advice(nvml::Return code, std::string_view what) {
  switch (code) {
    case nvml::Return::no_permission:
      if (!is_setting(what)) {
        return "this user may not read it: the driver, the container or the virtual GPU restricts it to administrators";
      }
      return "only root may set clocks and limits: run `lowgear agent` as root (or with CAP_SYS_ADMIN) and let it set "
             "them";
    case nvml::Return::operating_system:
      return "the container or its cgroup denies access to the GPU's devices; start it with access to GPUs";
    case nvml::Return::gpu_is_lost:
      return "the GPU has fallen off the bus: see the kernel's log for Xid errors, and reboot";
    case nvml::Return::reset_required:
      return "end its processes, then `nvidia-smi --gpu-reset`, or reboot";
    case nvml::Return::timeout:
      return "the driver does not respond in time: see the kernel's log for Xid errors";
    case nvml::Return::driver_not_loaded:
      return "load it (`modprobe nvidia`), and see the kernel's log if that fails";
    case nvml::Return::library_version_mismatch:
      return "the library and the loaded kernel module are of different versions: reboot after a driver update";
    case nvml::Return::library_not_found:
      return "a part of NVIDIA's driver is missing: install it again";
    case nvml::Return::in_use:
      return "another process holds the GPU: try again";
    case nvml::Return::argument_version_mismatch:
      return "this driver does not accept Lowgear's version of the call's structure: install a driver that does, or a "
             "release of Lowgear for this driver";
    default:
      return "";
  }
}

std::string with_advice(std::string words, nvml::Return code, std::string_view what) {
  const std::string_view fix = advice(code, what);
  return fix.empty() ? words : fmt::format("{}; {}", words, fix);
}

[[noreturn]] void throw_missing(const std::string& file, std::string_view why) {
  throw GpuError(GpuErrorCode::driver_missing,
                 fmt::format("{}: {}; install NVIDIA's driver, or name its NVML library by LOWGEAR_NVML", file, why));
}

/// Puts the first of these symbols that the library has into `function`.
template <typename... Parameters>
void find(void* library, NvmlFunction<Parameters...>& function, std::initializer_list<const char*> names) {
  function.symbol = *names.begin();
  for (const char* name : names) {
    function.pointer = reinterpret_cast<nvml::Return (*)(Parameters...)>(dlsym(library, name));
    if (!function) continue;
    function.symbol = name;
    return;
  }
}

/// The loader's words, without the file's name, which stands in front of the message already.
std::string why_not_loaded(const std::string& file) {
  const char* words = dlerror();
  std::string_view why = words != nullptr ? words : "cannot be loaded";
  if (why.starts_with(file + ": ")) why.remove_prefix(file.size() + 2);
  return printable(why);
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

bool is_unknown_form(nvml::Return code) {
  return code == nvml::Return::not_supported || code == nvml::Return::function_not_found ||
         code == nvml::Return::argument_version_mismatch;
}

void NvmlLibrary::Closer::operator()(void* handle) const { dlclose(handle); }

std::shared_ptr<const NvmlLibrary> NvmlLibrary::open() {
  const char* file = std::getenv("LOWGEAR_NVML");  // NOLINT(concurrency-mt-unsafe): nothing here sets the environment
  return std::make_shared<const NvmlLibrary>(file != nullptr && *file != '\0' ? file : "libnvidia-ml.so.1");
}

NvmlLibrary::NvmlLibrary(const std::string& file)
    : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)), opener_(getpid()) {
  if (!handle_) throw_missing(file, why_not_loaded(file));
  path_ = path_of(handle_.get(), file);
  simulated_ = dlsym(handle_.get(), "lowgear_simgpu_version") != nullptr;
  find_functions();
  initialise();
}

NvmlLibrary::~NvmlLibrary() {
  if (functions_.shutdown && opener_ == getpid()) functions_.shutdown();
}

// Where NVML has changed a call, the newest form that drivers from 470 on share with ours comes first.
void NvmlLibrary::find_functions() {
  void* library = handle_.get();
  NvmlFunctions& f = functions_;
  find(library, f.init, {"nvmlInit_v2", "nvmlInit"});
  find(library, f.shutdown, {"nvmlShutdown"});
  f.error_string = reinterpret_cast<const char* (*)(nvml::Return)>(dlsym(library, "nvmlErrorString"));
  find(library, f.system_get_driver_version, {"nvmlSystemGetDriverVersion"});
  find(library, f.device_get_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(library, f.device_get_handle_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(library, f.device_get_name, {"nvmlDeviceGetName"});
  find(library, f.device_get_uuid, {"nvmlDeviceGetUUID"});
  find(library, f.device_get_pci_info, {"nvmlDeviceGetPciInfo_v3"});
  find(library, f.device_get_mig_mode, {"nvmlDeviceGetMigMode"});
  find(library, f.device_get_compute_mode, {"nvmlDeviceGetComputeMode"});
  find(library, f.device_get_total_energy_consumption, {"nvmlDeviceGetTotalEnergyConsumption"});
  find(library, f.device_get_power_usage, {"nvmlDeviceGetPowerUsage"});
  find(library, f.device_get_field_values, {"nvmlDeviceGetFieldValues"});
  find(library, f.device_get_clock_info, {"nvmlDeviceGetClockInfo"});
  find(library, f.device_get_temperature_v, {"nvmlDeviceGetTemperatureV"});
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
  find(library, f.device_set_power_management_limit_v2, {"nvmlDeviceSetPowerManagementLimit_v2"});
  find(library, f.device_set_power_management_limit, {"nvmlDeviceSetPowerManagementLimit"});
  find(library, f.device_set_persistence_mode, {"nvmlDeviceSetPersistenceMode"});
  find_power_features();
  const bool complete = f.init && f.shutdown && f.device_get_count && f.device_get_handle_by_index &&
                        f.device_get_uuid && f.device_get_pci_info && f.device_get_name;
  if (!complete) {
    throw_missing(path_, "is not an NVML library of driver 470 or newer");
  }
}

void NvmlLibrary::find_power_features() {
  void* library = handle_.get();
  NvmlFunctions& f = functions_;
  find(library, f.device_workload_power_profile_get_profiles_info, {"nvmlDeviceWorkloadPowerProfileGetProfilesInfo"});
  find(library, f.device_workload_power_profile_get_current_profiles,
       {"nvmlDeviceWorkloadPowerProfileGetCurrentProfiles"});
  find(library, f.device_workload_power_profile_update_profiles, {"nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1"});
  find(library, f.device_workload_power_profile_set_requested_profiles,
       {"nvmlDeviceWorkloadPowerProfileSetRequestedProfiles"});
  find(library, f.device_workload_power_profile_clear_requested_profiles,
       {"nvmlDeviceWorkloadPowerProfileClearRequestedProfiles"});
  find(library, f.device_power_smoothing_set_state, {"nvmlDevicePowerSmoothingSetState"});
  find(library, f.device_power_smoothing_activate_preset, {"nvmlDevicePowerSmoothingActivatePresetProfile"});
}

void NvmlLibrary::initialise() {
  if (const nvml::Return code = functions_.init(); code != nvml::Return::success) {
    throw GpuError(gpu_error_code(code),
                   with_advice(fmt::format("{}: nvmlInit: {}", path_, describe(code)), code, "nvmlInit"));
  }
  std::array<char, nvml::kDriverVersionBytes> version{};
  if (functions_.system_get_driver_version &&
      functions_.system_get_driver_version(version.data(), version.size()) == nvml::Return::success) {
    version.back() = '\0';
    driver_version_ = version.data();
  }
}

void NvmlLibrary::throw_lacking(const char* symbol, std::string_view gpu, std::string_view what) const {
  throw GpuError(GpuErrorCode::not_supported,
                 fmt::format("GPU {}: {}: the library of driver {} has no {}", gpu, what,
                             driver_version_.empty() ? "(unknown version)" : driver_version_, symbol));
}

std::string NvmlLibrary::describe(nvml::Return code) const {
  const char* words = functions_.error_string != nullptr ? functions_.error_string(code) : nullptr;
  return words != nullptr ? words : fmt::format("NVML error {}", static_cast<int>(code));
}

void NvmlLibrary::check(nvml::Return code, std::string_view gpu, std::string_view what) const {
  if (code == nvml::Return::success) return;
  throw GpuError(gpu_error_code(code),
                 with_advice(fmt::format("GPU {}: {}: {}", gpu, what, describe(code)), code, what));
}

}  // namespace lowgear::gpu
