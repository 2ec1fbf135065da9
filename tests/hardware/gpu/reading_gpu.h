#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::gpu {

/// A GPU of which a test writes only what its sensors read; all of them work, or none does.
class ReadingGpu : public Gpu {
 public:
  explicit ReadingGpu(std::string uuid = "GPU-0", bool works = true) {
    identity_.uuid = std::move(uuid);
    for (GpuFeatureStatus& feature : features_) feature.works = works;
  }

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }
  [[nodiscard]] const GpuFeatures& features() const override { return features_; }
  [[nodiscard]] std::vector<int> supported_sm_clocks_mhz() override { return {1410}; }
  [[nodiscard]] PowerLimits power_limits() override { return {}; }
  [[nodiscard]] bool persistence_mode() override { return true; }
  [[nodiscard]] WorkloadPowerProfiles workload_power_profiles() override { return {}; }
  [[nodiscard]] PowerSmoothing power_smoothing() override { return {}; }

 private:
  GpuIdentity identity_;
  GpuFeatures features_;
};

/// A machine of such GPUs.
class ReadingSystem final : public GpuSystem {
 public:
  explicit ReadingSystem(std::vector<std::unique_ptr<Gpu>> gpus) : gpus_(std::move(gpus)) {}

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_; }
  [[nodiscard]] const std::string& driver_version() const override { return version_; }
  [[nodiscard]] bool simulated() const override { return true; }

 private:
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::string version_ = "580.1";
};

}  // namespace lowgear::gpu
