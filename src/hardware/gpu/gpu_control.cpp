#include "hardware/gpu/gpu_control.h"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "base/core/log.h"
#include "hardware/gpu/nvml_gpu.h"

namespace lowgear::gpu {
namespace {

// Beyond any GPU's: what is above cannot be meant, and is not handed to the driver.
constexpr int kHighestClockMhz = 100000;
constexpr double kHighestPowerLimitW = 1e5;

class NvmlControl final : public GpuControl {
 public:
  explicit NvmlControl(NvmlGpu& gpu) : gpu_(&gpu) {}

  [[nodiscard]] Gpu& gpu() override { return *gpu_; }

  void apply(const GpuSetting& setting) override {
    std::visit([this](const auto& each) { set(each); }, setting);
    if (logs_debug()) log_debug(fmt::format("GPU {}: {}", gpu_->identity().uuid, to_string(setting)));
  }

 private:
  void set(const LockSmClocks& clocks) {
    gpu_->call(LockSmClocks::kName, functions().device_set_gpu_locked_clocks, clock(clocks.min_mhz),
               clock(clocks.max_mhz));
  }
  void set(const ResetSmClocks&) { gpu_->call(ResetSmClocks::kName, functions().device_reset_gpu_locked_clocks); }
  void set(const LockMemoryClocks& clocks) {
    gpu_->call(LockMemoryClocks::kName, functions().device_set_memory_locked_clocks, clock(clocks.min_mhz),
               clock(clocks.max_mhz));
  }
  void set(const ResetMemoryClocks&) {
    gpu_->call(ResetMemoryClocks::kName, functions().device_reset_memory_locked_clocks);
  }
  void set(const SetPowerLimit& power) {
    if (!(power.limit_w > 0 && power.limit_w < kHighestPowerLimitW)) {  // NaN too
      throw GpuError(GpuErrorCode::invalid_value,
                     fmt::format("GPU {}: {} W is not a power limit; use one within its limits", gpu_->identity().uuid,
                                 power.limit_w));
    }
    set_power_limit_mw(*gpu_, static_cast<unsigned>(std::lround(power.limit_w * 1e3)));
  }
  void set(const SetPersistenceMode& mode) {
    gpu_->call(SetPersistenceMode::kName, functions().device_set_persistence_mode,
               mode.enabled ? nvml::kEnabled : nvml::kDisabled);
  }
  void set(const RequestWorkloadPowerProfiles& request) {
    require_feature(GpuFeature::workload_power_profiles);
    if (request.profiles.any() && !request.allow_conflicts) require_without_conflicts(*gpu_, request.profiles);
    request_workload_power_profiles(*gpu_, request.profiles);
  }
  // The preset first, so that no other one is in effect for a while.
  void set(const SetPowerSmoothing& smoothing) {
    require_feature(GpuFeature::power_smoothing);
    if (smoothing.preset) {
      require_preset(*smoothing.preset);
      activate_power_smoothing_preset(*gpu_, *smoothing.preset);
    }
    enable_power_smoothing(*gpu_, smoothing.enabled);
  }

  /// What could not be read when the GPU was opened could not be restored either.
  void require_feature(GpuFeature feature) const {
    const GpuFeatureStatus& status = gpu_->features()[static_cast<std::size_t>(feature)];
    if (status.works) return;
    // Drivers refuse what they do not know as an argument, too.
    const bool unknown = status.code == GpuErrorCode::invalid_value;
    throw GpuError(unknown ? GpuErrorCode::not_supported : status.code, status.reason);
  }

  void require_preset(int preset) const {
    const PowerSmoothing now = read_power_smoothing(*gpu_);
    if (!now.active_preset) {
      throw GpuError(
          GpuErrorCode::not_supported,
          fmt::format("GPU {}: {}: the driver does not report the active preset, so it could not be restored",
                      gpu_->identity().uuid, SetPowerSmoothing::kName));
    }
    const int presets = now.presets.value_or(nvml::kMaxPowerSmoothingPresets);
    if (preset >= 0 && preset < presets) return;
    throw GpuError(GpuErrorCode::invalid_value,
                   fmt::format("GPU {}: power smoothing has no preset {}; use one of 0 to {}", gpu_->identity().uuid,
                               preset, presets - 1));
  }

  [[nodiscard]] const NvmlFunctions& functions() const { return gpu_->library().functions(); }

  /// What stands for a clock in NVML. It takes huge numbers for other things than clocks (nvmlClockLimitId_t).
  [[nodiscard]] unsigned clock(int clock_mhz) const {
    if (clock_mhz < 1 || clock_mhz > kHighestClockMhz) {
      throw GpuError(GpuErrorCode::invalid_value, fmt::format("GPU {}: {} MHz is not a clock; use one that it supports",
                                                              gpu_->identity().uuid, clock_mhz));
    }
    return static_cast<unsigned>(clock_mhz);
  }

  NvmlGpu* gpu_;
};

class NvmlControlSystem final : public NvmlSystemOf<GpuControlSystem> {
 public:
  using NvmlSystemOf::NvmlSystemOf;

  [[nodiscard]] std::unique_ptr<GpuControl> control(std::string_view uuid_or_pci_address) override {
    // All of them were made by open_gpus.
    return std::make_unique<NvmlControl>(dynamic_cast<NvmlGpu&>(find_gpu(*this, uuid_or_pci_address)));
  }
};

}  // namespace

std::unique_ptr<GpuControlSystem> open_nvml_control() {
  return std::make_unique<NvmlControlSystem>(NvmlLibrary::open());
}

}  // namespace lowgear::gpu
