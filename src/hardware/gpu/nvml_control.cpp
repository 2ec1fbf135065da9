#include "hardware/gpu/nvml_control.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <variant>

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
    gpu_->call(SetPowerLimit::kName, functions().device_set_power_management_limit,
               static_cast<unsigned>(std::lround(power.limit_w * 1e3)));
  }
  void set(const SetPersistenceMode& mode) {
    gpu_->call(SetPersistenceMode::kName, functions().device_set_persistence_mode,
               mode.enabled ? nvml::kEnabled : nvml::kDisabled);
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

class NvmlControlSystem final : public GpuControlSystem {
 public:
  explicit NvmlControlSystem(std::shared_ptr<const NvmlLibrary> library)
      : library_(std::move(library)), gpus_(open_gpus(library_)) {}

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_.gpus; }
  [[nodiscard]] const std::string& driver_version() const override { return library_->driver_version(); }
  [[nodiscard]] bool simulated() const override { return library_->simulated(); }
  [[nodiscard]] std::vector<std::string> problems() const override { return gpus_.problems; }
  [[nodiscard]] std::unique_ptr<GpuControl> control(std::string_view uuid_or_pci_address) override {
    // All of them were made by open_gpus.
    return std::make_unique<NvmlControl>(dynamic_cast<NvmlGpu&>(find_gpu(*this, uuid_or_pci_address)));
  }

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  NvmlGpus gpus_;
};

}  // namespace

std::unique_ptr<GpuControlSystem> open_nvml_control() {
  return std::make_unique<NvmlControlSystem>(NvmlLibrary::open());
}

}  // namespace lowgear::gpu
