#include "hardware/gpu/nvml_survey.h"

#include <memory>

#include "hardware/gpu/nvml_gpu.h"

namespace lowgear::gpu {

namespace {

/// Empty where the driver does not tell.
std::optional<ComputeMode> compute_mode_of(const NvmlGpu& gpu) {
  unsigned mode = 0;
  try {
    gpu.call("compute mode", gpu.library().functions().device_get_compute_mode, &mode);
  } catch (const GpuError&) {
    return std::nullopt;
  }
  if (mode > static_cast<unsigned>(ComputeMode::exclusive_process)) return std::nullopt;
  return static_cast<ComputeMode>(mode);
}

GpuSurvey survey(Gpu& gpu) {
  GpuSurvey result{.identity = gpu.identity(),
                   .features = gpu.features(),
                   .persistence_mode = {},
                   .compute_mode = compute_mode_of(static_cast<const NvmlGpu&>(gpu)),  // as open_gpus made it
                   .power_limits = {},
                   .supported_sm_clocks_mhz = {},
                   .workload_power_profiles = {},
                   .power_smoothing = {}};
  if (works(gpu, GpuFeature::persistence_mode)) result.persistence_mode = gpu.persistence_mode();
  if (works(gpu, GpuFeature::power_limits)) result.power_limits = gpu.power_limits();
  if (works(gpu, GpuFeature::supported_clocks)) result.supported_sm_clocks_mhz = gpu.supported_sm_clocks_mhz();
  if (works(gpu, GpuFeature::workload_power_profiles)) result.workload_power_profiles = gpu.workload_power_profiles();
  if (works(gpu, GpuFeature::power_smoothing)) result.power_smoothing = gpu.power_smoothing();
  return result;
}

}  // namespace

std::string_view name(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::shared:
      return "default";
    case ComputeMode::exclusive_thread:
      return "exclusive-thread";
    case ComputeMode::exclusive_process:
      return "exclusive-process";
    case ComputeMode::prohibited:
      break;
  }
  return "prohibited";
}

NvmlSurvey survey_nvml() {
  const std::shared_ptr<const NvmlLibrary> library = NvmlLibrary::open();
  const NvmlGpus found = open_gpus(library);
  NvmlSurvey result{.library_path = library->path(),
                    .driver_version = library->driver_version(),
                    .simulated = library->simulated(),
                    .gpus = {},
                    .problems = found.problems};
  for (const std::unique_ptr<Gpu>& gpu : found.gpus) {
    try {
      result.gpus.push_back(survey(*gpu));
    } catch (const GpuError& error) {
      result.problems.emplace_back(error.what());
    }
  }
  return result;
}

std::unique_ptr<GpuSystem> open_nvml() { return std::make_unique<NvmlSystemOf<GpuSystem>>(NvmlLibrary::open()); }

}  // namespace lowgear::gpu
