#pragma once

#include <cstddef>
#include <cstdint>

/// The part of NVML's C ABI that Lowgear calls: numbers and layouts as NVIDIA's NVML API Reference and its headers for
/// driver 580 and, for newer calls, CUDA 13.3 state them. Own declarations, so that Lowgear builds without NVIDIA's
/// toolkit and runs with every driver from 470 on.
namespace lowgear::gpu::nvml {

/// nvmlReturn_t
enum class Return : std::int32_t {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  timeout = 10,
  library_not_found = 12,
  function_not_found = 13,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  library_version_mismatch = 18,
  in_use = 19,
  no_data = 21,
  insufficient_resources = 23,
  frequency_not_supported = 24,
  argument_version_mismatch = 25,
  unknown = 999,
};

struct DeviceHandle;
using Device = DeviceHandle*;  ///< nvmlDevice_t

inline constexpr std::size_t kUuidBytes = 96;
inline constexpr std::size_t kDriverVersionBytes = 80;

/// nvmlPciInfo_t, version 3
struct PciInfo {
  char bus_id_legacy[16];  // NOLINT(*-avoid-c-arrays): the layout is C's
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t pci_device_id;
  std::uint32_t pci_subsystem_id;
  char bus_id[32];  // NOLINT(*-avoid-c-arrays)
};
static_assert(sizeof(PciInfo) == 68);

/// nvmlUtilization_t
struct Utilization {
  std::uint32_t gpu;     ///< per cent
  std::uint32_t memory;  ///< per cent
};
static_assert(sizeof(Utilization) == 8);

/// nvmlClockType_t
enum class ClockType : std::int32_t { graphics = 0, sm = 1, memory = 2, video = 3 };

/// nvmlTemperatureSensors_t
inline constexpr std::int32_t kTemperatureOfGpu = 0;

/// nvmlEnableState_t
inline constexpr std::uint32_t kDisabled = 0;
inline constexpr std::uint32_t kEnabled = 1;

/// nvmlValue_t
union Value {
  double real;
  std::int32_t signed_integer;
  std::uint32_t unsigned_integer;
  std::uint64_t unsigned_long;
};
static_assert(sizeof(Value) == 8);

/// nvmlValueType_t
enum class ValueType : std::int32_t {
  real = 0,
  unsigned_integer = 1,
  unsigned_long = 2,
  unsigned_long_long = 3,
  signed_long_long = 4,
  signed_integer = 5,
};

/// nvmlFieldValue_t
struct FieldValue {
  std::uint32_t field_id;
  std::uint32_t scope_id;
  std::int64_t timestamp_us;
  std::int64_t latency_us;
  ValueType value_type;
  Return result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

/// NVML_FI_DEV_POWER_INSTANT, in milliwatts
inline constexpr std::uint32_t kFieldInstantPower = 186;

/// NVML_STRUCT_VERSION: size and number of a versioned structure. The driver refuses a version that it does not know
/// with argument_version_mismatch.
template <typename Struct>
constexpr std::uint32_t struct_version(std::uint32_t number) {
  return static_cast<std::uint32_t>(sizeof(Struct)) | number << 24U;
}

/// nvmlTemperature_v1_t
struct TemperatureV1 {
  std::uint32_t version;
  std::int32_t sensor;
  std::int32_t temperature_c;
};
static_assert(sizeof(TemperatureV1) == 12);

/// nvmlPowerValue_v2_t. NVIDIA's comment calls it version 1; its macro encodes 2, which drivers accept.
struct PowerValueV2 {
  std::uint32_t version;
  std::uint8_t scope;
  std::uint32_t power_mw;
};
static_assert(sizeof(PowerValueV2) == 12);

inline constexpr std::uint8_t kPowerScopeGpu = 0;  ///< NVML_POWER_SCOPE_GPU

/// nvmlMask255_t
struct Mask255 {
  std::uint32_t words[8];  // NOLINT(*-avoid-c-arrays): the layout is C's
};
static_assert(sizeof(Mask255) == 32);

/// nvmlWorkloadPowerProfileInfo_v1_t
struct WorkloadPowerProfileInfoV1 {
  std::uint32_t version;
  std::uint32_t profile_id;
  std::uint32_t priority;  ///< the lowest number wins
  Mask255 conflicting;
};
static_assert(sizeof(WorkloadPowerProfileInfoV1) == 44);

/// nvmlWorkloadPowerProfileProfilesInfo_v1_t
struct WorkloadPowerProfilesInfoV1 {
  std::uint32_t version;
  Mask255 supported;
  WorkloadPowerProfileInfoV1 profiles[255];  // NOLINT(*-avoid-c-arrays)
};
static_assert(sizeof(WorkloadPowerProfilesInfoV1) == 11256);

/// nvmlWorkloadPowerProfileCurrentProfiles_v1_t
struct WorkloadPowerProfilesCurrentV1 {
  std::uint32_t version;
  Mask255 supported;
  Mask255 requested;
  Mask255 enforced;
};
static_assert(sizeof(WorkloadPowerProfilesCurrentV1) == 100);

/// nvmlWorkloadPowerProfileRequestedProfiles_v1_t
struct WorkloadPowerProfileRequestV1 {
  std::uint32_t version;
  Mask255 requested;
};
static_assert(sizeof(WorkloadPowerProfileRequestV1) == 36);

/// nvmlWorkloadPowerProfileUpdateProfiles_v1_t, which has no version.
struct WorkloadPowerProfileUpdateV1 {
  std::uint32_t operation;
  Mask255 profiles;
};
static_assert(sizeof(WorkloadPowerProfileUpdateV1) == 36);

/// nvmlPowerProfileOperation_t
inline constexpr std::uint32_t kRemoveWorkloadPowerProfiles = 0;
inline constexpr std::uint32_t kAddWorkloadPowerProfiles = 1;
inline constexpr std::uint32_t kReplaceWorkloadPowerProfiles = 2;

/// nvmlPowerSmoothingState_v1_t
struct PowerSmoothingStateV1 {
  std::uint32_t version;
  std::uint32_t state;  ///< kDisabled, kEnabled
};
static_assert(sizeof(PowerSmoothingStateV1) == 8);

/// nvmlPowerSmoothingProfile_v1_t
struct PowerSmoothingProfileV1 {
  std::uint32_t version;
  std::uint32_t profile_id;
  std::uint32_t parameter_id;
  double value;
};
static_assert(sizeof(PowerSmoothingProfileV1) == 24 && offsetof(PowerSmoothingProfileV1, value) == 16);

/// NVML_POWER_SMOOTHING_MAX_NUM_PROFILES
inline constexpr int kMaxPowerSmoothingPresets = 5;

// NVML_FI_PWR_SMOOTHING_*. Those of a preset take its number as scope.
inline constexpr std::uint32_t kFieldSmoothingEnabled = 251;
inline constexpr std::uint32_t kFieldSmoothingCeiling = 254;              ///< in watts
inline constexpr std::uint32_t kFieldSmoothingFloor = 255;                ///< in watts
inline constexpr std::uint32_t kFieldSmoothingLifetimeLeft = 258;         ///< in per cent
inline constexpr std::uint32_t kFieldSmoothingPresets = 259;              ///< how many there are
inline constexpr std::uint32_t kFieldSmoothingPresetFloor = 260;          ///< in per cent
inline constexpr std::uint32_t kFieldSmoothingPresetRampUp = 261;         ///< in mW/s
inline constexpr std::uint32_t kFieldSmoothingPresetRampDown = 262;       ///< in mW/s
inline constexpr std::uint32_t kFieldSmoothingPresetRampDownDelay = 263;  ///< in milliseconds
inline constexpr std::uint32_t kFieldSmoothingActivePreset = 264;

}  // namespace lowgear::gpu::nvml
