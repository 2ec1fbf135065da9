#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hardware/gpu/gpu.h"
#include "hardware/gpu/gpu_setting.h"
#include "hardware/gpu/nvml_library.h"

namespace lowgear::gpu {

/// One GPU as NVML reads it.
class NvmlGpu final : public Gpu {
 public:
  /// Asks for identity and features. Throws GpuError when not even the identity can be read.
  NvmlGpu(std::shared_ptr<const NvmlLibrary> library, nvml::Device device, int index);

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }
  [[nodiscard]] const GpuFeatures& features() const override { return features_; }
  void read(GpuFeature sensor, GpuValues& values) override;
  [[nodiscard]] std::vector<int> supported_sm_clocks_mhz() override;
  [[nodiscard]] PowerLimits power_limits() override;
  [[nodiscard]] bool persistence_mode() override;
  [[nodiscard]] WorkloadPowerProfiles workload_power_profiles() override;
  [[nodiscard]] PowerSmoothing power_smoothing() override;

  [[nodiscard]] const NvmlLibrary& library() const { return *library_; }
  /// Calls a function of the library with this GPU. Throws GpuError, naming the GPU and `what`, the request.
  template <typename... Parameters, typename... Arguments>
  void call(std::string_view what, const NvmlFunction<nvml::Device, Parameters...>& function,
            Arguments... arguments) const {
    library_->call(identity_.uuid, what, function, device_, arguments...);
  }
  /// Calls a function that the library has, and returns its code.
  template <typename... Parameters, typename... Arguments>
  [[nodiscard]] nvml::Return ask(const NvmlFunction<nvml::Device, Parameters...>& function,
                                 Arguments... arguments) const {
    return function(device_, arguments...);
  }

 private:
  void read_identity(int index);
  void find_features();
  [[nodiscard]] unsigned highest_memory_clock_mhz() const;
  [[nodiscard]] double limit_w(const NvmlFunction<nvml::Device, unsigned*>& function, std::string_view what) const;

  std::shared_ptr<const NvmlLibrary> library_;
  nvml::Device device_;
  GpuIdentity identity_;
  GpuFeatures features_;
};

/// The GPUs that a library shows.
struct NvmlGpus {
  std::vector<std::unique_ptr<Gpu>> gpus;  ///< in its order
  std::vector<std::string> problems;       ///< one for each GPU that cannot be opened or that the driver lists twice
};
[[nodiscard]] NvmlGpus open_gpus(const std::shared_ptr<const NvmlLibrary>& library);

/// The common part of GpuSystem and GpuControlSystem with NVML.
template <typename System>
class NvmlSystemOf : public System {
 public:
  explicit NvmlSystemOf(std::shared_ptr<const NvmlLibrary> library)
      : library_(std::move(library)), gpus_(open_gpus(library_)) {}

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_.gpus; }
  [[nodiscard]] const std::string& driver_version() const override { return library_->driver_version(); }
  [[nodiscard]] bool simulated() const override { return library_->simulated(); }
  [[nodiscard]] std::vector<std::string> problems() const override { return gpus_.problems; }

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  NvmlGpus gpus_;
};

// Power features of NVML that only some drivers and GPUs have. Every function throws GpuError: not_supported where the
// driver lacks the call or does not accept this version of its structure, or the GPU lacks the feature.

[[nodiscard]] WorkloadPowerProfiles read_workload_power_profiles(const NvmlGpu& gpu);
/// Throws GpuError (invalid_value), naming them, for profiles that the GPU lacks or that conflict with each other.
void require_without_conflicts(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles);
/// Requests exactly these profiles, in place of the requested ones.
void request_workload_power_profiles(const NvmlGpu& gpu, const WorkloadPowerProfileSet& profiles);

[[nodiscard]] PowerSmoothing read_power_smoothing(const NvmlGpu& gpu);
void enable_power_smoothing(const NvmlGpu& gpu, bool enabled);
void activate_power_smoothing_preset(const NvmlGpu& gpu, int preset);

/// Sets the limit of the GPU alone, by the driver's newest call.
void set_power_limit_mw(const NvmlGpu& gpu, unsigned limit_mw);

}  // namespace lowgear::gpu
