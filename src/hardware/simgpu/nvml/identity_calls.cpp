#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "hardware/simgpu/nvml/session.h"

// Calls about what a GPU is: names, places, sizes and modes that do not change.

namespace lowgear::simgpu::nvml {
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
