#include "gpu/nvml_control.h"

#include <cmath>
#include <utility>

#include "gpu/nvml_gpu.h"

namespace lowgear {
namespace {

class NvmlControl final : public GpuControl {
 public:
  explicit NvmlControl(NvmlGpu& gpu) : gpu_(&gpu) {}

  [[nodiscard]] Gpu& gpu() override { return *gpu_; }

  void lock_sm_clocks(int min_mhz, int max_mhz) override {
    call("lock SM clocks", functions().device_set_gpu_locked_clocks, static_cast<unsigned>(min_mhz),
         static_cast<unsigned>(max_mhz));
  }
  void reset_sm_clocks() override { call("reset SM clocks", functions().device_reset_gpu_locked_clocks); }
  void lock_memory_clocks(int min_mhz, int max_mhz) override {
    call("lock memory clocks", functions().device_set_memory_locked_clocks, static_cast<unsigned>(min_mhz),
         static_cast<unsigned>(max_mhz));
  }
  void reset_memory_clocks() override { call("reset memory clocks", functions().device_reset_memory_locked_clocks); }
  void set_power_limit_w(double power_limit_w) override {
    call("set the power limit", functions().device_set_power_management_limit,
         static_cast<unsigned>(std::lround(power_limit_w * 1e3)));
  }
  void set_persistence_mode(bool enabled) override {
    call("set persistence mode", functions().device_set_persistence_mode, enabled ? nvml::kEnabled : nvml::kDisabled);
  }
  [[nodiscard]] bool persistence_mode() override {
    unsigned mode = nvml::kDisabled;
    call("persistence mode", functions().device_get_persistence_mode, &mode);
    return mode == nvml::kEnabled;
  }

 private:
  [[nodiscard]] const NvmlFunctions& functions() const { return gpu_->library().functions(); }

  template <typename... Parameters, typename... Arguments>
  void call(std::string_view what, nvml::Return (*function)(nvml::Device, Parameters...), Arguments... arguments) {
    const std::string& uuid = gpu_->identity().uuid;
    if (function == nullptr) {
      throw GpuError(GpuErrorCode::not_supported, "GPU " + uuid + ": " + std::string(what) + ": driver " +
                                                      gpu_->library().driver_version() + " does not have this call");
    }
    gpu_->library().check(function(gpu_->device(), arguments...), uuid, what);
  }

  NvmlGpu* gpu_;
};

class NvmlControlSystem final : public GpuControlSystem {
 public:
  explicit NvmlControlSystem(std::shared_ptr<const NvmlLibrary> library)
      : library_(std::move(library)), gpus_(nvml_gpus(library_)) {}

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_; }
  [[nodiscard]] const std::string& driver_version() const override { return library_->driver_version(); }
  [[nodiscard]] bool simulated() const override { return library_->simulated(); }
  [[nodiscard]] std::unique_ptr<GpuControl> control(std::string_view uuid_or_pci_address) override {
    // All of them were made by nvml_gpus.
    return std::make_unique<NvmlControl>(static_cast<NvmlGpu&>(find_gpu(*this, uuid_or_pci_address)));
  }

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
};

}  // namespace

std::unique_ptr<GpuControlSystem> open_nvml_control() {
  return std::make_unique<NvmlControlSystem>(NvmlLibrary::open());
}

}  // namespace lowgear
