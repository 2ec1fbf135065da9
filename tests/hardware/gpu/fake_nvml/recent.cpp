// What drivers have by now.
#include <string>

#include "hardware/gpu/fake_nvml/fake_nvml.h"

using namespace lowgear;
using namespace lowgear::gpu;
using fake_nvml::give;

namespace lowgear::fake_nvml {
namespace {

/// What is requested, in the driver's words.
gpu::nvml::Mask255 requested{};

std::string text_of(const gpu::nvml::Mask255& mask) {
  std::string text;
  for (unsigned bit = 0; bit < 255; ++bit) {
    if ((mask.words[bit / 32] >> bit % 32 & 1U) != 0) text += " " + std::to_string(bit);
  }
  return text;
}

/// Whether the field is one of power smoothing, of which the active preset is number 1.
bool give_smoothing_field(gpu::nvml::FieldValue& field) {
  const auto answer = [&](unsigned value) {
    field.value_type = gpu::nvml::ValueType::unsigned_integer;
    field.value.unsigned_long = 0;
    field.value.unsigned_integer = value;
    field.result = scripted("smoothing");
    return true;
  };
  switch (field.field_id) {
    case gpu::nvml::kFieldSmoothingEnabled:
      return answer(1);
    case gpu::nvml::kFieldSmoothingCeiling:
      return answer(1000);
    case gpu::nvml::kFieldSmoothingLifetimeLeft:
      return answer(97);
    case gpu::nvml::kFieldSmoothingPresets:
      return answer(5);
    case gpu::nvml::kFieldSmoothingActivePreset:
      (void)answer(1);
      if (field.result == gpu::nvml::Return::success) field.result = scripted("preset");
      return true;
    case gpu::nvml::kFieldSmoothingPresetRampUp:
      return answer(field.scope_id == 1 ? 250'000 : 0);
    default:
      return false;
  }
}

/// The checks of a versioned structure; the version that it should have is that of the C layout.
template <typename Struct>
gpu::nvml::Return check_version(std::string_view symbol, const Struct& value, unsigned number, unsigned bytes) {
  if (const gpu::nvml::Return code = scripted(symbol); code != gpu::nvml::Return::success) return code;
  return value.version == (number << 24U | bytes) ? gpu::nvml::Return::success
                                                  : gpu::nvml::Return::argument_version_mismatch;
}

}  // namespace
}  // namespace lowgear::fake_nvml

extern "C" {

gpu::nvml::Return nvmlDeviceGetTemperatureV(gpu::nvml::Device, gpu::nvml::TemperatureV1* temperature) {
  const gpu::nvml::Return code = fake_nvml::check_version("nvmlDeviceGetTemperatureV", *temperature, 1, 12);
  temperature->temperature_c = 42;
  return code;
}
gpu::nvml::Return nvmlDeviceSetPowerManagementLimit_v2(gpu::nvml::Device, gpu::nvml::PowerValueV2* value) {
  const auto code = fake_nvml::check_version("nvmlDeviceSetPowerManagementLimit_v2", *value, 2, 12);
  if (code == gpu::nvml::Return::success) {
    fake_nvml::record("power limit " + std::to_string(value->power_mw) + " of scope " + std::to_string(value->scope));
  }
  return code;
}
gpu::nvml::Return nvmlDeviceWorkloadPowerProfileGetProfilesInfo(gpu::nvml::Device,
                                                                gpu::nvml::WorkloadPowerProfilesInfoV1* info) {
  const auto code =
      fake_nvml::check_version("nvmlDeviceWorkloadPowerProfileGetProfilesInfo", *info, 1, 4 + 32 + 255 * 44);
  if (code != gpu::nvml::Return::success) return code;
  info->supported.words[0] = 0b1000'0011;  // max_p, max_q, llm_training
  for (const unsigned profile : {0U, 1U, 7U}) info->profiles[profile].profile_id = profile;
  info->profiles[0].conflicting.words[0] = 0b10;
  info->profiles[1].conflicting.words[0] = 0b01;
  if (fake_nvml::scripted("renumbered") != gpu::nvml::Return::success) info->profiles[7].profile_id = 6;
  return code;
}
gpu::nvml::Return nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(gpu::nvml::Device,
                                                                   gpu::nvml::WorkloadPowerProfilesCurrentV1* now) {
  const auto code = fake_nvml::check_version("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", *now, 1, 100);
  if (code != gpu::nvml::Return::success) return code;
  now->supported.words[0] = 0b1000'0011;
  now->requested = fake_nvml::requested;
  now->enforced.words[0] = 0b1;
  return code;
}
gpu::nvml::Return nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(gpu::nvml::Device,
                                                                     gpu::nvml::WorkloadPowerProfileRequestV1* add) {
  const auto code = fake_nvml::check_version("nvmlDeviceWorkloadPowerProfileSetRequestedProfiles", *add, 1, 36);
  if (code != gpu::nvml::Return::success) return code;
  fake_nvml::record("profiles added" + fake_nvml::text_of(add->requested));
  for (unsigned i = 0; i < 8; ++i) fake_nvml::requested.words[i] |= add->requested.words[i];
  return code;
}
gpu::nvml::Return nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(
    gpu::nvml::Device, gpu::nvml::WorkloadPowerProfileRequestV1* remove) {
  const auto code = fake_nvml::check_version("nvmlDeviceWorkloadPowerProfileClearRequestedProfiles", *remove, 1, 36);
  if (code != gpu::nvml::Return::success) return code;
  fake_nvml::record("profiles removed" + fake_nvml::text_of(remove->requested));
  for (unsigned i = 0; i < 8; ++i) fake_nvml::requested.words[i] &= ~remove->requested.words[i];
  return code;
}
gpu::nvml::Return nvmlDevicePowerSmoothingSetState(gpu::nvml::Device, gpu::nvml::PowerSmoothingStateV1* state) {
  const auto code = fake_nvml::check_version("nvmlDevicePowerSmoothingSetState", *state, 1, 8);
  if (code == gpu::nvml::Return::success) fake_nvml::record("power smoothing " + std::to_string(state->state));
  return code;
}
gpu::nvml::Return nvmlDevicePowerSmoothingActivatePresetProfile(gpu::nvml::Device,
                                                                gpu::nvml::PowerSmoothingProfileV1* profile) {
  const auto code = fake_nvml::check_version("nvmlDevicePowerSmoothingActivatePresetProfile", *profile, 1, 24);
  if (code == gpu::nvml::Return::success) fake_nvml::record("preset " + std::to_string(profile->profile_id));
  return code;
}

gpu::nvml::Return nvmlDeviceGetTotalEnergyConsumption(gpu::nvml::Device, unsigned long long* energy_mj) {
  return give("nvmlDeviceGetTotalEnergyConsumption", energy_mj, 5'000'000'000'500ULL);
}
gpu::nvml::Return nvmlDeviceGetFieldValues(gpu::nvml::Device, int count, gpu::nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    if (fake_nvml::give_smoothing_field(values[i])) continue;
    values[i].value_type = gpu::nvml::ValueType::unsigned_integer;
    values[i].result = values[i].field_id == gpu::nvml::kFieldInstantPower ? fake_nvml::scripted("field")
                                                                           : gpu::nvml::Return::not_supported;
    values[i].value.unsigned_long = ~0ULL;
    values[i].value.unsigned_integer = 99250;
  }
  return fake_nvml::scripted("nvmlDeviceGetFieldValues");
}
gpu::nvml::Return nvmlDeviceGetCurrentClocksEventReasons(gpu::nvml::Device, unsigned long long* reasons) {
  return give("nvmlDeviceGetCurrentClocksEventReasons", reasons, 0x4);
}
gpu::nvml::Return nvmlDeviceGetMigMode(gpu::nvml::Device device, unsigned* current, unsigned* pending) {
  *pending = gpu::nvml::kDisabled;
  // The second GPU is in MIG mode.
  return give("nvmlDeviceGetMigMode", current, reinterpret_cast<std::uintptr_t>(device) == 2 ? 1 : 0);
}
gpu::nvml::Return nvmlDeviceGetComputeMode(gpu::nvml::Device, unsigned* mode) {
  return give("nvmlDeviceGetComputeMode", mode, 3);
}
gpu::nvml::Return nvmlDeviceSetGpuLockedClocks(gpu::nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("SM clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return fake_nvml::scripted("nvmlDeviceSetGpuLockedClocks");
}
gpu::nvml::Return nvmlDeviceResetGpuLockedClocks(gpu::nvml::Device) {
  fake_nvml::record("SM clocks reset");
  return fake_nvml::scripted("nvmlDeviceResetGpuLockedClocks");
}
gpu::nvml::Return nvmlDeviceSetMemoryLockedClocks(gpu::nvml::Device, unsigned min_mhz, unsigned max_mhz) {
  fake_nvml::record("memory clocks " + std::to_string(min_mhz) + " " + std::to_string(max_mhz));
  return gpu::nvml::Return::success;
}
gpu::nvml::Return nvmlDeviceResetMemoryLockedClocks(gpu::nvml::Device) {
  fake_nvml::record("memory clocks reset");
  return gpu::nvml::Return::success;
}
}
