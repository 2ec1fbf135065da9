#pragma once

#include <cstddef>
#include <cstdint>

/// The part of NVML's C ABI that Lowgear calls: numbers and layouts as NVIDIA's NVML API Reference and its header for
/// driver 580 state them. Own declarations, so that Lowgear builds without NVIDIA's toolkit and runs with every driver
/// from 470 on.
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

inline constexpr std::size_t kNameBytes = 96;
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

/// nvmlRestrictedAPI_t: setting application clocks, which shares its permission with nothing else; locked clocks are
/// always for root.
inline constexpr std::uint32_t kRestrictedSetApplicationClocks = 0;

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

}  // namespace lowgear::gpu::nvml
