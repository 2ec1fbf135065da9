#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>

#include "hardware/simgpu/nvml/session.h"
#include "hardware/simgpu/shared_state.h"

// Calls about the library and the machine, and those that find GPUs.

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

}  // namespace lowgear::simgpu::nvml
