#include "hardware/gpu/nvml_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/core/text.h"
#include "base/core/units.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::gpu {

NvmlGpu::NvmlGpu(std::shared_ptr<const NvmlLibrary> library, nvml::Device device, int index)
    : library_(std::move(library)), device_(device) {
  read_identity(index);
  find_features();
}

void NvmlGpu::read_identity(int index) {
  const NvmlFunctions& f = library_->functions();
  identity_.index = index;
  identity_.uuid = fmt::format("number {}", index);  // until it is known, for messages
  std::array<char, nvml::kUuidBytes> text{};
  call("UUID", f.device_get_uuid, text.data(), static_cast<unsigned>(text.size()));
  text.back() = '\0';
  identity_.uuid = normal_gpu_uuid(text.data());
  call("name", f.device_get_name, text.data(), static_cast<unsigned>(text.size()));
  text.back() = '\0';
  identity_.name = text.data();
  nvml::PciInfo pci{};
  call("PCI address", f.device_get_pci_info, &pci);
  identity_.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  unsigned current = nvml::kDisabled;
  unsigned pending = nvml::kDisabled;
  identity_.mig_enabled = f.device_get_mig_mode &&
                          f.device_get_mig_mode(device_, &current, &pending) == nvml::Return::success &&
                          current == nvml::kEnabled;
  // Grace Hopper counts CPU, memory and GPU together (ml-energy/zeus#172).
  identity_.counts_whole_module = identity_.name.find("GH200") != std::string::npos;
}

// Whether a call works is known only from calling it. Setters are not tried: what they need is there or not.
void NvmlGpu::find_features() {
  const auto found = [this](GpuFeature feature, const std::function<void()>& attempt) {
    GpuFeatureStatus& status = features_[static_cast<std::size_t>(feature)];
    try {
      attempt();
      status.works = true;
    } catch (const GpuError& error) {
      status = {.works = false, .code = error.code(), .reason = error.what()};
    }
  };
  for (const GpuSensor& sensor : gpu_sensors()) {
    found(sensor.feature, [&] {
      GpuValues values;
      sensor.read(*this, values);
    });
  }
  found(GpuFeature::supported_clocks, [this] { (void)supported_sm_clocks_mhz(); });
  found(GpuFeature::power_limits, [this] { (void)power_limits(); });
  found(GpuFeature::persistence_mode, [this] { (void)persistence_mode(); });
  found(GpuFeature::workload_power_profiles, [this] { (void)workload_power_profiles(); });
  found(GpuFeature::power_smoothing, [this] { (void)power_smoothing(); });
  const NvmlFunctions& f = library_->functions();
  found(GpuFeature::clock_control, [&] {
    library_->require(f.device_set_gpu_locked_clocks, identity_.uuid, "locked SM clocks");
    library_->require(f.device_reset_gpu_locked_clocks, identity_.uuid, "locked SM clocks");
  });
  found(GpuFeature::power_control, [&] {
    if (!f.device_set_power_management_limit_v2) {
      library_->require(f.device_set_power_management_limit, identity_.uuid, "power limit");
    }
  });
}

void NvmlGpu::read(GpuFeature sensor, GpuValues& values) {
  std::ranges::find(gpu_sensors(), sensor, &GpuSensor::feature)->read(*this, values);
}

unsigned NvmlGpu::highest_memory_clock_mhz() const {
  std::array<unsigned, 64> clocks_mhz{};
  auto count = static_cast<unsigned>(clocks_mhz.size());
  call("supported memory clocks", library_->functions().device_get_supported_memory_clocks, &count, clocks_mhz.data());
  return *std::max_element(clocks_mhz.begin(), clocks_mhz.begin() + std::min<std::size_t>(count, clocks_mhz.size()));
}

std::vector<int> NvmlGpu::supported_sm_clocks_mhz() {
  std::array<unsigned, 1024> clocks_mhz{};
  auto count = static_cast<unsigned>(clocks_mhz.size());
  call("supported SM clocks", library_->functions().device_get_supported_graphics_clocks, highest_memory_clock_mhz(),
       &count, clocks_mhz.data());
  std::vector<int> result(clocks_mhz.begin(), clocks_mhz.begin() + std::min<std::size_t>(count, clocks_mhz.size()));
  std::ranges::sort(result, std::greater<>());
  return result;
}

double NvmlGpu::limit_w(const NvmlFunction<nvml::Device, unsigned*>& function, std::string_view what) const {
  unsigned power_mw = 0;
  call(what, function, &power_mw);
  return power_mw * kWattsPerMilliwatt;
}

PowerLimits NvmlGpu::power_limits() {
  const NvmlFunctions& f = library_->functions();
  unsigned min_mw = 0;
  unsigned max_mw = 0;
  call("power limit range", f.device_get_power_management_limit_constraints, &min_mw, &max_mw);
  return {.min_w = min_mw * kWattsPerMilliwatt,
          .max_w = max_mw * kWattsPerMilliwatt,
          .default_w = limit_w(f.device_get_power_management_default_limit, "default power limit"),
          .current_w = limit_w(f.device_get_power_management_limit, "power limit"),
          .enforced_w = limit_w(f.device_get_enforced_power_limit, "enforced power limit")};
}

bool NvmlGpu::persistence_mode() {
  unsigned mode = nvml::kDisabled;
  call("persistence mode", library_->functions().device_get_persistence_mode, &mode);
  return mode == nvml::kEnabled;
}

WorkloadPowerProfiles NvmlGpu::workload_power_profiles() { return read_workload_power_profiles(*this); }

PowerSmoothing NvmlGpu::power_smoothing() { return read_power_smoothing(*this); }

namespace {

/// Leaves one of a GPU that the driver lists twice, and none of several that have one UUID or one PCI address: what is
/// set on or read from one of them would count for another. Returns what was left out, one line each.
std::vector<std::string> drop_doubles(std::vector<std::unique_ptr<Gpu>>& gpus) {
  const auto is_double = [](const GpuIdentity& a, const GpuIdentity& b) {
    return a.uuid == b.uuid || a.pci_address == b.pci_address;
  };
  std::vector<std::string> problems;
  std::vector<bool> dropped(gpus.size(), false);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const GpuIdentity& first = gpus[j]->identity();
      const GpuIdentity& second = gpus[i]->identity();
      if (!is_double(first, second)) continue;
      const bool is_same = first.uuid == second.uuid && first.pci_address == second.pci_address;
      if (!is_same) dropped[j] = true;
      if (dropped[i]) continue;
      dropped[i] = true;
      problems.push_back(fmt::format("GPU number {}: the driver says that it is {} at {}, and number {} {} at {}; {}",
                                     second.index, second.uuid, second.pci_address, first.index, first.uuid,
                                     first.pci_address,
                                     is_same ? "it is counted once" : "none of them is used: update the driver"));
    }
  }
  std::size_t i = 0;
  std::erase_if(gpus, [&](const auto&) { return dropped[i++]; });
  return problems;
}

}  // namespace

NvmlGpus open_gpus(const std::shared_ptr<const NvmlLibrary>& library) {
  const NvmlFunctions& f = library->functions();
  unsigned count = 0;
  library->check(f.device_get_count(&count), "count", "number of GPUs");
  NvmlGpus result;
  for (unsigned index = 0; index < count; ++index) {
    // One that is lost must not hide the others.
    try {
      nvml::Device device = nullptr;
      library->check(f.device_get_handle_by_index(index, &device), fmt::format("number {}", index), "handle");
      result.gpus.push_back(std::make_unique<NvmlGpu>(library, device, static_cast<int>(index)));
    } catch (const GpuError& error) {
      result.problems.emplace_back(error.what());
    }
  }
  std::ranges::move(drop_doubles(result.gpus), std::back_inserter(result.problems));
  return result;
}

namespace {

constexpr std::string_view kProfiles = "workload power profiles";
constexpr std::string_view kSmoothing = "power smoothing";
constexpr std::size_t kBitsPerWord = 32;
constexpr double kWattsPerMilliwattPerS = 1e-3;

const NvmlFunctions& functions_of(const NvmlGpu& gpu) { return gpu.library().functions(); }

WorkloadPowerProfileSet set_of(const nvml::Mask255& mask) {
  WorkloadPowerProfileSet set;
  for (std::size_t bit = 0; bit < set.size(); ++bit) {
    set.set(bit, (mask.words[bit / kBitsPerWord] >> bit % kBitsPerWord & 1U) != 0);
  }
  return set;
}

nvml::Mask255 mask_of(const WorkloadPowerProfileSet& set) {
  nvml::Mask255 mask{};
  for (std::size_t bit = 0; bit < set.size(); ++bit) {
    if (set.test(bit)) mask.words[bit / kBitsPerWord] |= 1U << bit % kBitsPerWord;
  }
  return mask;
}

[[noreturn]] void refuse(const NvmlGpu& gpu, std::string_view why) {
  throw GpuError(GpuErrorCode::invalid_value,
                 fmt::format("GPU {}: {}: {}", gpu.identity().uuid, RequestWorkloadPowerProfiles::kName, why));
}

/// Before NVML 13.1: what is requested is removed and added, never replaced.
void clear_and_set(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles) {
  const auto call = [&](const auto& function, const WorkloadPowerProfileSet& set) {
    nvml::WorkloadPowerProfileRequestV1 request{};
    request.version = nvml::struct_version<nvml::WorkloadPowerProfileRequestV1>(1);
    request.requested = mask_of(set);
    if (set.any()) gpu.call(RequestWorkloadPowerProfiles::kName, function, &request);
  };
  const NvmlFunctions& f = functions_of(gpu);
  gpu.library().require(f.device_workload_power_profile_set_requested_profiles, gpu.identity().uuid,
                        RequestWorkloadPowerProfiles::kName);
  const WorkloadPowerProfileSet requested = read_workload_power_profiles(gpu).requested;
  call(f.device_workload_power_profile_clear_requested_profiles, requested & ~profiles);
  call(f.device_workload_power_profile_set_requested_profiles, profiles & ~requested);
}

double number(const nvml::FieldValue& field) {
  switch (field.value_type) {
    case nvml::ValueType::real:
      return field.value.real;
    case nvml::ValueType::signed_integer:
      return field.value.signed_integer;
    case nvml::ValueType::unsigned_integer:
      return field.value.unsigned_integer;
    case nvml::ValueType::signed_long_long:
      return static_cast<double>(std::bit_cast<std::int64_t>(field.value));
    case nvml::ValueType::unsigned_long:
    case nvml::ValueType::unsigned_long_long:
      break;
  }
  return static_cast<double>(field.value.unsigned_long);
}

/// Fields that are read by one call.
template <std::size_t kCount>
class Fields {
 public:
  /// `scope`: the preset whose fields they are; 0 for others.
  Fields(const NvmlGpu& gpu, std::array<std::uint32_t, kCount> ids, std::uint32_t scope) {
    for (std::size_t i = 0; i < kCount; ++i) {
      fields_.at(i).field_id = ids.at(i);
      fields_.at(i).scope_id = scope;
    }
    gpu.call(kSmoothing, functions_of(gpu).device_get_field_values, static_cast<int>(kCount), fields_.data());
  }

  [[nodiscard]] const nvml::FieldValue& of(std::uint32_t field_id) const {
    return *std::ranges::find(fields_, field_id, &nvml::FieldValue::field_id);
  }
  /// Empty where the driver does not have the field, or not in this state.
  [[nodiscard]] std::optional<double> value(std::uint32_t field_id) const {
    const nvml::FieldValue& field = of(field_id);
    return field.result == nvml::Return::success ? std::optional(number(field)) : std::nullopt;
  }

 private:
  std::array<nvml::FieldValue, kCount> fields_{};
};

std::optional<int> whole(std::optional<double> value) {
  return value ? std::optional(static_cast<int>(std::lround(*value))) : std::nullopt;
}

/// Ramp rates are set in W/s and read in mW/s.
std::optional<double> watts_per_s(std::optional<double> rate_mw_per_s) {
  return rate_mw_per_s ? std::optional(*rate_mw_per_s * kWattsPerMilliwattPerS) : std::nullopt;
}

}  // namespace

WorkloadPowerProfiles read_workload_power_profiles(const NvmlGpu& gpu) {
  nvml::WorkloadPowerProfilesCurrentV1 now{};
  now.version = nvml::struct_version<nvml::WorkloadPowerProfilesCurrentV1>(1);
  gpu.call(kProfiles, functions_of(gpu).device_workload_power_profile_get_current_profiles, &now);
  return {.supported = set_of(now.supported), .requested = set_of(now.requested), .enforced = set_of(now.enforced)};
}

// Rejects conflicts, which the driver would resolve silently: it enforces the profile of higher priority.
void require_without_conflicts(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles) {
  const auto info = std::make_unique<nvml::WorkloadPowerProfilesInfoV1>();  // 11 KB
  info->version = nvml::struct_version<nvml::WorkloadPowerProfilesInfoV1>(1);
  gpu.call(kProfiles, functions_of(gpu).device_workload_power_profile_get_profiles_info, info.get());
  const WorkloadPowerProfileSet supported = set_of(info->supported);
  if (const WorkloadPowerProfileSet missing = profiles & ~supported; missing.any()) {
    refuse(gpu, fmt::format("it has no {}; request some of {}", to_string(missing), to_string(supported)));
  }
  for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
    if (!profiles.test(profile)) continue;
    const nvml::WorkloadPowerProfileInfoV1& each = info->profiles[profile];
    if (each.profile_id != profile) {
      throw GpuError(GpuErrorCode::not_supported,
                     fmt::format("GPU {}: {}: this driver numbers them in another way than Lowgear knows ({} at {})",
                                 gpu.identity().uuid, kProfiles, each.profile_id, profile));
    }
    const WorkloadPowerProfileSet others = profiles & set_of(each.conflicting);
    if (others.any()) {
      refuse(gpu, fmt::format("{} conflicts with {}; request one of them", workload_power_profile_name(profile),
                              to_string(others)));
    }
  }
}

void request_workload_power_profiles(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles) {
  const NvmlFunctions& f = functions_of(gpu);
  const auto& update = f.device_workload_power_profile_update_profiles;
  if (!update) return clear_and_set(gpu, profiles);
  nvml::WorkloadPowerProfileUpdateV1 request{};
  request.operation = nvml::kReplaceWorkloadPowerProfiles;
  request.profiles = mask_of(profiles);
  const nvml::Return code = gpu.ask(update, &request);
  if (is_unknown_form(code) && f.device_workload_power_profile_set_requested_profiles) {
    return clear_and_set(gpu, profiles);
  }
  gpu.library().check(code, gpu.identity().uuid, RequestWorkloadPowerProfiles::kName);
}

PowerSmoothing read_power_smoothing(const NvmlGpu& gpu) {
  const Fields fields(gpu,
                      std::to_array<std::uint32_t>({nvml::kFieldSmoothingEnabled, nvml::kFieldSmoothingActivePreset,
                                                    nvml::kFieldSmoothingPresets, nvml::kFieldSmoothingCeiling,
                                                    nvml::kFieldSmoothingFloor, nvml::kFieldSmoothingLifetimeLeft}),
                      0);
  const nvml::FieldValue& enabled = fields.of(nvml::kFieldSmoothingEnabled);
  gpu.library().check(enabled.result, gpu.identity().uuid, kSmoothing);
  PowerSmoothing now;
  now.enabled = number(enabled) != 0;
  now.active_preset = whole(fields.value(nvml::kFieldSmoothingActivePreset));
  now.presets = whole(fields.value(nvml::kFieldSmoothingPresets));
  now.ceiling_w = fields.value(nvml::kFieldSmoothingCeiling);
  now.floor_w = fields.value(nvml::kFieldSmoothingFloor);
  now.lifetime_left_percent = fields.value(nvml::kFieldSmoothingLifetimeLeft);
  if (!now.active_preset) return now;
  const Fields preset(
      gpu,
      std::to_array<std::uint32_t>({nvml::kFieldSmoothingPresetFloor, nvml::kFieldSmoothingPresetRampUp,
                                    nvml::kFieldSmoothingPresetRampDown, nvml::kFieldSmoothingPresetRampDownDelay}),
      static_cast<std::uint32_t>(*now.active_preset));
  now.floor_percent = preset.value(nvml::kFieldSmoothingPresetFloor);
  now.ramp_up_w_per_s = watts_per_s(preset.value(nvml::kFieldSmoothingPresetRampUp));
  now.ramp_down_w_per_s = watts_per_s(preset.value(nvml::kFieldSmoothingPresetRampDown));
  now.ramp_down_delay_ms = preset.value(nvml::kFieldSmoothingPresetRampDownDelay);
  return now;
}

void enable_power_smoothing(const NvmlGpu& gpu, bool enabled) {
  nvml::PowerSmoothingStateV1 state{};
  state.version = nvml::struct_version<nvml::PowerSmoothingStateV1>(1);
  state.state = enabled ? nvml::kEnabled : nvml::kDisabled;
  gpu.call(SetPowerSmoothing::kName, functions_of(gpu).device_power_smoothing_set_state, &state);
}

void activate_power_smoothing_preset(const NvmlGpu& gpu, int preset) {
  nvml::PowerSmoothingProfileV1 profile{};
  profile.version = nvml::struct_version<nvml::PowerSmoothingProfileV1>(1);
  profile.profile_id = static_cast<std::uint32_t>(preset);
  gpu.call(SetPowerSmoothing::kName, functions_of(gpu).device_power_smoothing_activate_preset, &profile);
}

void set_power_limit_mw(const NvmlGpu& gpu, unsigned limit_mw) {
  const NvmlFunctions& f = functions_of(gpu);
  if (f.device_set_power_management_limit_v2) {
    nvml::PowerValueV2 value{};
    value.version = nvml::struct_version<nvml::PowerValueV2>(2);
    value.scope = nvml::kPowerScopeGpu;
    value.power_mw = limit_mw;
    const nvml::Return code = gpu.ask(f.device_set_power_management_limit_v2, &value);
    if (!f.device_set_power_management_limit || !is_unknown_form(code)) {
      return gpu.library().check(code, gpu.identity().uuid, SetPowerLimit::kName);
    }
  }
  gpu.call(SetPowerLimit::kName, f.device_set_power_management_limit, limit_mw);
}

}  // namespace lowgear::gpu
