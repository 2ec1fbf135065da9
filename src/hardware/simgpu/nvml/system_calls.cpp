// Calls about the library and the machine, those that find GPUs, and those about names, places, sizes and modes of a
// GPU, which do not change.

#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "hardware/simgpu/nvml/session.h"
#include "hardware/simgpu/shared_state.h"

namespace lowgear::simgpu::nvml {

namespace {

/// nvmlInit has no other way to say what is wrong with the machine's file.
Return fail_to_init(const std::exception& error, Return code) {
  std::fprintf(stderr, "lowgear simgpu: %s\n", error.what());
  return code;
}

Return init() noexcept {
  try {
    return Session::instance().init();
  } catch (const SharedStateDenied& error) {
    return fail_to_init(error, Return::no_permission);
  } catch (const std::exception& error) {
    return fail_to_init(error, Return::driver_not_loaded);
  }
}

Return handle_by_index(unsigned index, Device* device) {
  return answer([&](SimulatedMachine& /*machine*/) {
    const Device handle = index <= kMaxSimulatedGpus ? Session::instance().handle(static_cast<int>(index)) : nullptr;
    return handle != nullptr ? give(device, handle) : Return::invalid_argument;
  });
}

/// The first GPU that `matches`.
template <typename Matches>
Return handle_of(Device* device, Matches&& matches) {
  return answer([&](SimulatedMachine& machine) {
    for (int index = 0; index < machine.gpus(); ++index) {
      if (matches(machine.gpu(index))) return give(device, Session::instance().handle(index));
    }
    return Return::not_found;
  });
}

/// Domain, bus and device of a PCI address in any of NVML's spellings; empty when it is none.
std::optional<std::array<unsigned, 3>> parse_pci_address(std::string_view text) {
  std::array<unsigned, 3> parts{};
  std::size_t count = 0;
  while (count < 3) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc()) return std::nullopt;
    parts[count++] = value;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != ':') break;
    text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
  }
  if (!text.empty() && text != ".0") return std::nullopt;
  if (count == 2) return std::array<unsigned, 3>{0, parts[0], parts[1]};
  return count == 3 ? std::optional(parts) : std::nullopt;
}

Return handle_by_pci_address(const char* address, Device* device) {
  if (address == nullptr) return Return::invalid_argument;
  const auto wanted = parse_pci_address(address);
  if (!wanted) return Return::invalid_argument;
  return handle_of(device, [&](SimulatedGpu& gpu) { return parse_pci_address(gpu.pci_address()) == wanted; });
}

std::string nvml_version() { return "13." + std::string(simulated_driver_version()); }

constexpr int kCudaVersion = 13000;

}  // namespace

LOWGEAR_NVML nvmlInit() { return init(); }
LOWGEAR_NVML nvmlInit_v2() { return init(); }
LOWGEAR_NVML nvmlInitWithFlags(unsigned /*flags*/) { return init(); }
LOWGEAR_NVML nvmlShutdown() {
  try {
    return Session::instance().shutdown();
  } catch (...) {
    return code_of_current_exception();
  }
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(Return code) {
  switch (code) {
    case Return::success:
      return "Success";
    case Return::uninitialized:
      return "Uninitialized";
    case Return::invalid_argument:
      return "Invalid Argument";
    case Return::not_supported:
      return "Not Supported";
    case Return::no_permission:
      return "Insufficient Permissions";
    case Return::not_found:
      return "Not Found";
    case Return::insufficient_size:
      return "Insufficient Size";
    case Return::driver_not_loaded:
      return "Driver Not Loaded";
    case Return::timeout:
      return "Timeout";
    case Return::library_not_found:
      return "NVML Shared Library Not Found";
    case Return::function_not_found:
      return "Function Not Found";
    case Return::gpu_is_lost:
      return "GPU is lost";
    case Return::reset_required:
      return "GPU requires reset";
    case Return::operating_system:
      return "The operating system has blocked the request.";
    case Return::library_version_mismatch:
      return "RM has detected an NVML/RM version mismatch.";
    case Return::in_use:
      return "In use by another client";
    case Return::no_data:
      return "No data";
    case Return::insufficient_resources:
      return "Insufficient Resources";
    case Return::frequency_not_supported:
      return "Requested clock is not supported";
    case Return::argument_version_mismatch:
      return "Argument version mismatch";
    case Return::unknown:
      break;
  }
  return "Unknown Error";
}

LOWGEAR_NVML nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return answer([&](SimulatedMachine&) { return give_text(version, length, simulated_driver_version()); });
}
LOWGEAR_NVML nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return answer([&](SimulatedMachine&) { return give_text(version, length, nvml_version()); });
}
LOWGEAR_NVML nvmlSystemGetCudaDriverVersion(int* version) {
  return answer([&](SimulatedMachine&) { return give(version, kCudaVersion); });
}
LOWGEAR_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) { return nvmlSystemGetCudaDriverVersion(version); }

LOWGEAR_NVML nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return answer([&](SimulatedMachine&) {
    std::string command;
    if (!std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), command)) return Return::not_found;
    return give_text(name, length, command);
  });
}

LOWGEAR_NVML nvmlDeviceGetCount(unsigned* count) {
  return answer([&](SimulatedMachine& machine) { return give(count, machine.gpus()); });
}
LOWGEAR_NVML nvmlDeviceGetCount_v2(unsigned* count) { return nvmlDeviceGetCount(count); }
LOWGEAR_NVML nvmlUnitGetCount(unsigned* count) {
  return answer([&](SimulatedMachine&) { return give(count, 0); });
}

LOWGEAR_NVML nvmlDeviceGetHandleByIndex(unsigned index, Device* device) { return handle_by_index(index, device); }
LOWGEAR_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) { return handle_by_index(index, device); }
LOWGEAR_NVML nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (uuid == nullptr) return Return::invalid_argument;
  return handle_of(device, [&](SimulatedGpu& gpu) { return gpu.uuid() == uuid; });
}
LOWGEAR_NVML nvmlDeviceGetHandleByPciBusId(const char* address, Device* device) {
  return handle_by_pci_address(address, device);
}
LOWGEAR_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* address, Device* device) {
  return handle_by_pci_address(address, device);
}

namespace {

constexpr unsigned kBrandNvidia = 14;
constexpr unsigned kBusTypePcie = 2;
constexpr unsigned kPassThrough = 1;  ///< nvmlGpuVirtualizationMode_t
constexpr unsigned kVbiosBytes = 32;

PciInfo pci_info(SimulatedGpu& gpu) {
  PciInfo info{};
  std::sscanf(gpu.pci_address().c_str(), "%x:%x:%x", &info.domain, &info.bus, &info.device);
  info.pci_device_id = gpu.model().pci_device_id;
  info.pci_subsystem_id = gpu.model().pci_subsystem_id;
  std::snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.0", info.domain & 0xffffU,
                info.bus & 0xffU, info.device & 0xffU);
  std::snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", info.domain, info.bus & 0xffU,
                info.device & 0xffU);
  return info;
}

Return give_pci_info(Device device, PciInfo* target, std::string_view call) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) { return give(target, pci_info(gpu)); });
}

/// A pair of modes, now and after the next reboot, which are always the same here.
Return give_modes(Device device, std::string_view call, unsigned* current, unsigned* pending, unsigned mode) {
  return answer_for(device, call, [&](SimulatedGpu&) {
    const Return first = give(current, mode);
    return first == Return::success ? give(pending, mode) : first;
  });
}

/// A number that follows from the model alone.
Return give_number(Device device, std::string_view call, unsigned* target,
                   const std::function<unsigned(const SimulatedGpuModel&)>& number) {
  return answer_for(device, call, [&](SimulatedGpu& gpu) { return give(target, number(gpu.model())); });
}

}  // namespace

LOWGEAR_NVML nvmlDeviceGetName(Device device, char* name, unsigned length) {
  return answer_for(device, "DeviceGetName",
                    [&](SimulatedGpu& gpu) { return give_text(name, length, gpu.model().name.view()); });
}
LOWGEAR_NVML nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  return answer_for(device, "DeviceGetUUID", [&](SimulatedGpu& gpu) { return give_text(uuid, length, gpu.uuid()); });
}
LOWGEAR_NVML nvmlDeviceGetIndex(Device device, unsigned* index) {
  return answer_for(device, "DeviceGetIndex",
                    [&](SimulatedGpu&) { return give(index, *Session::instance().index_of(device)); });
}
LOWGEAR_NVML nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  return answer_for(device, "DeviceGetMinorNumber",
                    [&](SimulatedGpu&) { return give(minor, *Session::instance().index_of(device)); });
}
LOWGEAR_NVML nvmlDeviceGetModuleId(Device device, unsigned* module) {
  return answer_for(device, "DeviceGetModuleId",
                    [&](SimulatedGpu&) { return give(module, *Session::instance().index_of(device)); });
}
LOWGEAR_NVML nvmlDeviceGetBoardId(Device device, unsigned* board) {
  return answer_for(device, "DeviceGetBoardId", [&](SimulatedGpu& gpu) { return give(board, pci_info(gpu).device); });
}
LOWGEAR_NVML nvmlDeviceGetPciInfo(Device device, PciInfo* info) {
  return give_pci_info(device, info, "DeviceGetPciInfo");
}
LOWGEAR_NVML nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info) {
  return give_pci_info(device, info, "DeviceGetPciInfo");
}
LOWGEAR_NVML nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return give_pci_info(device, info, "DeviceGetPciInfo");
}
LOWGEAR_NVML nvmlDeviceGetVbiosVersion(Device device, char* version, unsigned length) {
  static_assert(sizeof("simulated") <= kVbiosBytes);
  return answer_for(device, "DeviceGetVbiosVersion",
                    [&](SimulatedGpu&) { return give_text(version, length, "simulated"); });
}
LOWGEAR_NVML nvmlDeviceGetGspFirmwareVersion(Device device, char* version) {
  return answer_for(device, "DeviceGetGspFirmwareVersion",
                    [&](SimulatedGpu&) { return give_text(version, kDriverVersionBytes, simulated_driver_version()); });
}
LOWGEAR_NVML nvmlDeviceGetBrand(Device device, unsigned* brand) {
  return give_number(device, "DeviceGetBrand", brand, [](const auto&) { return kBrandNvidia; });
}
LOWGEAR_NVML nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  return give_number(device, "DeviceGetArchitecture", architecture,
                     [](const auto& model) { return model.architecture; });
}
LOWGEAR_NVML nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return answer_for(device, "DeviceGetCudaComputeCapability", [&](SimulatedGpu& gpu) {
    const Return first = give(major, gpu.model().compute_capability_major);
    return first == Return::success ? give(minor, gpu.model().compute_capability_minor) : first;
  });
}
LOWGEAR_NVML nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  return give_number(device, "DeviceGetNumGpuCores", cores,
                     [](const auto& model) { return static_cast<unsigned>(model.cores); });
}
LOWGEAR_NVML nvmlDeviceGetMemoryBusWidth(Device device, unsigned* bits) {
  return give_number(device, "DeviceGetMemoryBusWidth", bits,
                     [](const auto& model) { return static_cast<unsigned>(model.memory_bus_bits); });
}
LOWGEAR_NVML nvmlDeviceGetBusType(Device device, unsigned* type) {
  return give_number(device, "DeviceGetBusType", type, [](const auto&) { return kBusTypePcie; });
}
LOWGEAR_NVML nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* generation) {
  return give_number(device, "DeviceGetMaxPcieLinkGeneration", generation,
                     [](const auto& model) { return static_cast<unsigned>(model.pcie_generation); });
}
LOWGEAR_NVML nvmlDeviceGetGpuMaxPcieLinkGeneration(Device device, unsigned* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
LOWGEAR_NVML nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
LOWGEAR_NVML nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* width) {
  return give_number(device, "DeviceGetMaxPcieLinkWidth", width,
                     [](const auto& model) { return static_cast<unsigned>(model.pcie_width); });
}
LOWGEAR_NVML nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* width) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, width);
}
LOWGEAR_NVML nvmlDeviceGetPcieReplayCounter(Device device, unsigned* count) {
  return give_number(device, "DeviceGetPcieReplayCounter", count, [](const auto&) { return 0U; });
}
LOWGEAR_NVML nvmlDeviceGetMultiGpuBoard(Device device, unsigned* multiple) {
  return give_number(device, "DeviceGetMultiGpuBoard", multiple, [](const auto&) { return 0U; });
}
LOWGEAR_NVML nvmlDeviceGetDisplayActive(Device device, unsigned* active) {
  return give_number(device, "DeviceGetDisplayActive", active, [](const auto&) { return kDisabled; });
}
LOWGEAR_NVML nvmlDeviceGetDisplayMode(Device device, unsigned* mode) {
  return give_number(device, "DeviceGetDisplayMode", mode, [](const auto&) { return kDisabled; });
}
LOWGEAR_NVML nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
  return give_number(device, "DeviceGetComputeMode", mode, [](const auto&) { return 0U; });
}
LOWGEAR_NVML nvmlDeviceGetAccountingMode(Device device, unsigned* mode) {
  return give_number(device, "DeviceGetAccountingMode", mode, [](const auto&) { return kDisabled; });
}
LOWGEAR_NVML nvmlDeviceGetVirtualizationMode(Device device, unsigned* mode) {
  return give_number(device, "DeviceGetVirtualizationMode", mode, [](const auto&) { return kPassThrough; });
}
LOWGEAR_NVML nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return give_modes(device, "DeviceGetMigMode", current, pending, kDisabled);
}
LOWGEAR_NVML nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  return give_number(device, "DeviceGetMaxMigDeviceCount", count, [](const auto&) { return 0U; });
}
LOWGEAR_NVML nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is_mig) {
  return give_number(device, "DeviceIsMigDeviceHandle", is_mig, [](const auto&) { return 0U; });
}
LOWGEAR_NVML nvmlDeviceGetEccMode(Device device, unsigned* current, unsigned* pending) {
  return give_modes(device, "DeviceGetEccMode", current, pending, kEnabled);
}
LOWGEAR_NVML nvmlDeviceGetTotalEccErrors(Device device, int /*type*/, int /*counter*/, unsigned long long* count) {
  return answer_for(device, "DeviceGetTotalEccErrors", [&](SimulatedGpu&) { return give(count, 0); });
}
LOWGEAR_NVML nvmlDeviceGetMemoryErrorCounter(Device device, int /*type*/, int /*counter*/, int /*location*/,
                                             unsigned long long* count) {
  return answer_for(device, "DeviceGetMemoryErrorCounter", [&](SimulatedGpu&) { return give(count, 0); });
}
LOWGEAR_NVML nvmlDeviceValidateInforom(Device device) {
  return answer_for(device, "DeviceValidateInforom", [](SimulatedGpu&) { return Return::success; });
}

}  // namespace lowgear::simgpu::nvml
