/// Lists of simulated GPUs (`2xH100,A40`): what is accepted makes a machine.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "hardware/simgpu/simulated_machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<lowgear::simgpu::SimulatedGpuModel> models = lowgear::simgpu::gpu_models_from_text(text);
    if (models.empty() || models.size() > lowgear::simgpu::kMaxSimulatedGpus) std::abort();
    for (const lowgear::simgpu::SimulatedGpuModel& model : models) check(model);
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
