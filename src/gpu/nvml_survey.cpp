#include "gpu/nvml_survey.h"

#include <memory>

#include "gpu/nvml_gpu.h"

namespace lowgear {
namespace {

std::optional<bool> persistence_mode(const NvmlLibrary& library, const NvmlGpu& gpu) {
  const auto& get = library.functions().device_get_persistence_mode;
  unsigned mode = nvml::kDisabled;
  if (!get || get(gpu.device(), &mode) != nvml::Return::success) return std::nullopt;
  return mode == nvml::kEnabled;
}

GpuSurvey survey(const NvmlLibrary& library, NvmlGpu& gpu) {
  GpuSurvey result{.identity = gpu.identity(),
                   .features = gpu.features(),
                   .persistence_mode = persistence_mode(library, gpu),
                   .power_limits = {},
                   .supported_sm_clocks_mhz = {}};
  if (works(gpu, GpuFeature::power_limits)) result.power_limits = gpu.power_limits();
  if (works(gpu, GpuFeature::supported_clocks)) result.supported_sm_clocks_mhz = gpu.supported_sm_clocks_mhz();
  return result;
}

}  // namespace

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
      // All of them were made by open_gpus.
      result.gpus.push_back(survey(*library, dynamic_cast<NvmlGpu&>(*gpu)));
    } catch (const GpuError& error) {
      result.problems.emplace_back(error.what());
    }
  }
  return result;
}

}  // namespace lowgear
