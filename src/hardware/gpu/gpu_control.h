#pragma once

#include <memory>

#include "hardware/gpu/gpu.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::gpu {

/// Changes one GPU. The only way to a setter, and only the agent may include this header (cmake/check_layers.sh checks
/// it): everything else reads. Calls block for as long as the driver takes (10-20 ms are typical), may be made from
/// any thread, and throw GpuError when they fail.
///
/// NVML can set and reset a range of locked clocks but not read it back: the range shows only in the clock of a busy
/// GPU. The driver resets it when it is loaded again.
class GpuControl {
 public:
  virtual ~GpuControl() = default;

  [[nodiscard]] virtual Gpu& gpu() = 0;

  virtual void apply(const GpuSetting& setting) = 0;
};

/// Opens GPUs for control.
class GpuControlSystem : public GpuSystem {
 public:
  /// Throws InputError when no GPU has this UUID or PCI address.
  [[nodiscard]] virtual std::unique_ptr<GpuControl> control(std::string_view uuid_or_pci_address) = 0;
};

/// The GPUs that NVML shows, for reading and setting. Throws GpuError (driver_missing) where there is no NVIDIA driver.
/// Setters fail with no_permission unless the process is root.
[[nodiscard]] std::unique_ptr<GpuControlSystem> open_nvml_control();

}  // namespace lowgear::gpu
