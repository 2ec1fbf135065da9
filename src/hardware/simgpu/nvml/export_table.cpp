#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "hardware/simgpu/nvml/session.h"

// nvidia-smi takes part of its data from a table of functions that NVML hands out under a number. The table is not
// documented; what is known of it (size in the first slot, which slot does what, the layout of a process entry) was
// found out by the authors of NVIDIA/k8s-test-infra's mock NVML for nvidia-smi 580 and is used here as a fact.

using lowgear::simgpu::nvml::Device;
using lowgear::simgpu::nvml::Return;
using lowgear::simgpu::nvml::Session;

LOWGEAR_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device);
LOWGEAR_NVML nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                     lowgear::simgpu::nvml::ProcessInfo* infos);
LOWGEAR_NVML nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length);

namespace {

constexpr std::array<unsigned char, 16> kTableId = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                                    0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
constexpr std::size_t kSlots = 512;
constexpr std::uintptr_t kStatedBytes = 0x1000;
/// Whether a GPU has the readings that `nvidia-smi dmon` shows; found by giving each answer to nvidia-smi 580.159.
constexpr std::size_t kMonitoringSlot = 72;
constexpr std::size_t kHandleByIndexSlot = 81;
constexpr std::size_t kFirstProcessListSlot = 213;
constexpr std::size_t kLastProcessListSlot = 215;

/// One process as these lists hold it.
struct ProcessEntry {
  std::uint32_t pid;
  std::uint32_t padding;
  std::uint64_t used_gpu_memory;
  std::uint32_t gpu_instance_id;
  std::uint32_t compute_instance_id;
  std::uint64_t used_protected_memory;
  std::array<char, 4096> name;
};
static_assert(sizeof(ProcessEntry) == 4128);

Return list_processes(Device device, std::uint32_t* count, ProcessEntry* entries) {
  std::array<lowgear::simgpu::nvml::ProcessInfo, 1024> infos{};
  unsigned found = infos.size();
  if (const Return code = nvmlDeviceGetComputeRunningProcesses_v3(device, &found, infos.data());
      code != Return::success) {
    *count = 0;
    return code;
  }
  const std::uint32_t capacity = *count;
  *count = 0;
  for (unsigned i = 0; i < found && *count < capacity; ++i) {
    ProcessEntry& entry = entries[(*count)++];
    entry.pid = infos[i].pid;
    entry.used_gpu_memory = infos[i].used_gpu_memory;
    entry.gpu_instance_id = entry.compute_instance_id = lowgear::simgpu::nvml::kNoInstance;
    entry.used_protected_memory = 0;
    if (nvmlSystemGetProcessName(entry.pid, entry.name.data(), sizeof entry.name) != Return::success) {
      entry.name[0] = '\0';
    }
  }
  return Return::success;
}

/// The function of a slot. Unknown functions do nothing: calls on a GPU set their result to zero (a list without
/// entries), others report success.
template <std::size_t kSlot>
Return slot(void* first, void* second, void* third, void* /*fourth*/) {
  if constexpr (kSlot == kHandleByIndexSlot) {
    const auto index = reinterpret_cast<std::uintptr_t>(first);
    if (second == nullptr || index >= lowgear::simgpu::kMaxSimulatedGpus) return Return::invalid_argument;
    return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(index), static_cast<Device*>(second));
  }
  const auto device = static_cast<Device>(first);
  if (second == nullptr || !Session::instance().index_of(device)) return Return::success;
  if constexpr (kSlot >= kFirstProcessListSlot && kSlot <= kLastProcessListSlot) {
    if (third != nullptr) {
      return list_processes(device, static_cast<std::uint32_t*>(second), static_cast<ProcessEntry*>(third));
    }
  }
  *static_cast<std::uint32_t*>(second) = kSlot == kMonitoringSlot ? 1 : 0;
  return Return::success;
}

using Slot = Return (*)(void*, void*, void*, void*);

template <std::size_t... kIndices>
std::array<Slot, kSlots> slots(std::index_sequence<kIndices...>) {
  return {slot<kIndices>...};
}

const void* export_table() {
  static const std::array<Slot, kSlots> table = [] {
    std::array<Slot, kSlots> filled = slots(std::make_index_sequence<kSlots>());
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the first slot states the size of the table
    filled[0] = reinterpret_cast<Slot>(kStatedBytes);
    return filled;
  }();
  return table.data();
}

}  // namespace

LOWGEAR_NVML nvmlInternalGetExportTable(const void** table, const void* id) {
  if (table == nullptr || id == nullptr) return Return::invalid_argument;
  *table = nullptr;
  if (std::memcmp(id, kTableId.data(), kTableId.size()) != 0) return Return::invalid_argument;
  *table = export_table();
  return Return::success;
}
