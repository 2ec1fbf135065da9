#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// The GPUs of the machine as the agent's main thread sees them: only their identities. Calls of the driver, which may
/// never return, are made only on the separate thread of each GPU.
class GuardedGpus {
 public:
  /// None.
  GuardedGpus() = default;
  /// Takes any system for what it guards.
  template <std::derived_from<gpu::GpuSystem> System>
  GuardedGpus(std::shared_ptr<System> driver)  // NOLINT(google-explicit-constructor)
      : driver_(std::move(driver)),
        simulated_(driver_->simulated()),
        driver_version_(driver_->driver_version()),
        hidden_(driver_->problems()) {
    for (const std::unique_ptr<gpu::Gpu>& gpu : driver_->gpus()) identities_.push_back(gpu->identity());
  }

  /// In the driver's order.
  [[nodiscard]] const std::vector<gpu::GpuIdentity>& identities() const { return identities_; }
  [[nodiscard]] bool simulated() const { return simulated_; }
  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }

  /// Why GPUs that the driver counts are none of these, one line each.
  [[nodiscard]] const std::vector<std::string>& hidden() const { return hidden_; }

  /// The place in `identities` of the GPU with this UUID or PCI address. Throws InputError naming those there are.
  [[nodiscard]] std::size_t index_of(std::string_view uuid_or_pci_address) const;

 private:
  friend class GpuWorker;
  friend class Telemetry;
  [[nodiscard]] const std::shared_ptr<gpu::GpuSystem>& driver() const { return driver_; }

  std::shared_ptr<gpu::GpuSystem> driver_;
  bool simulated_ = false;
  std::string driver_version_;
  std::vector<std::string> hidden_;
  std::vector<gpu::GpuIdentity> identities_;
};

}  // namespace lowgear::agent
