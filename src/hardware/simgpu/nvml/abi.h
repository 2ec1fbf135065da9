#pragma once

#include <cstddef>
#include <cstdint>

#include "hardware/gpu/nvml_abi.h"

/// The part of NVML's C ABI that only its other clients use (nvidia-smi, nvidia-ml-py, exporters): layouts and numbers
/// as NVIDIA's NVML API Reference and its header for driver 580 state them.
namespace lowgear::simgpu::nvml {

using namespace gpu::nvml;  // what Lowgear itself calls

/// nvmlMemory_t
struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(Memory) == 24);

/// nvmlMemory_v2_t
struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total;
  std::uint64_t reserved;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40);

/// nvmlBAR1Memory_t
struct Bar1Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};

/// nvmlProcessInfo_v1_t
struct ProcessInfoV1 {
  std::uint32_t pid;
  std::uint64_t used_gpu_memory;
};
static_assert(sizeof(ProcessInfoV1) == 16);

/// nvmlProcessInfo_t, versions 2 and 3 of the call
struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used_gpu_memory;
  std::uint32_t gpu_instance_id;
  std::uint32_t compute_instance_id;
};
static_assert(sizeof(ProcessInfo) == 24);

/// nvmlEventData_t
struct EventData {
  Device device;
  std::uint64_t event_type;
  std::uint64_t event_data;
  std::uint32_t gpu_instance_id;
  std::uint32_t compute_instance_id;
};
static_assert(sizeof(EventData) == 32);

inline constexpr std::uint8_t kPowerScopeModule = 1;               ///< NVML_POWER_SCOPE_MODULE
inline constexpr std::uint8_t kPowerScopeMemory = 2;               ///< NVML_POWER_SCOPE_MEMORY
inline constexpr std::uint32_t kNoInstance = 0xffffffff;           ///< outside MIG
inline constexpr std::uint32_t kClockLimitTdp = 0xffffff01;        ///< NVML_CLOCK_LIMIT_ID_TDP
inline constexpr std::uint32_t kClockLimitUnlimited = 0xffffff02;  ///< NVML_CLOCK_LIMIT_ID_UNLIMITED

/// nvmlClockId_t
enum class ClockId : std::int32_t { current = 0, application_target = 1, application_default = 2, boost_max = 3 };

/// nvmlTemperatureThresholds_t
enum class TemperatureThreshold : std::int32_t { shutdown = 0, slowdown = 1, memory_max = 2, gpu_max = 3 };

// NVML_FI_DEV_*
inline constexpr std::uint32_t kFieldTotalEnergy = 83;
inline constexpr std::uint32_t kFieldAveragePower = 185;
inline constexpr std::uint32_t kFieldMinPowerLimit = 187;
inline constexpr std::uint32_t kFieldMaxPowerLimit = 188;
inline constexpr std::uint32_t kFieldDefaultPowerLimit = 189;
inline constexpr std::uint32_t kFieldCurrentPowerLimit = 190;
inline constexpr std::uint32_t kFieldEnergy = 191;
inline constexpr std::uint32_t kFieldRequestedPowerLimit = 192;

}  // namespace lowgear::simgpu::nvml
