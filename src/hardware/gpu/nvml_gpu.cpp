#include "hardware/gpu/nvml_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "base/core/formats/gpu_uuid.h"
#include "base/core/units.h"
#include "hardware/gpu/nvml_power_features.h"

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

}  // namespace lowgear::gpu
