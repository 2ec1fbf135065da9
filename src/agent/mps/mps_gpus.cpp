#include "agent/mps/mps_gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"

namespace lowgear::agent {
namespace {

std::string refusal_of(const gpu::GpuSurvey& gpu) {
  const std::string& uuid = gpu.identity.uuid;
  if (gpu.identity.mig_enabled) {
    return fmt::format("{}: no MPS daemon: MIG is on, and jobs get instances of this GPU; name another GPU in [mps]",
                       uuid);
  }
  if (gpu.compute_mode == gpu::ComputeMode::prohibited) {
    return fmt::format(
        "{}: no MPS daemon: its compute mode lets no process use it; sudo nvidia-smi -i {} -c DEFAULT, "
        "and restart the agent",
        uuid, gpu.identity.pci_address);
  }
  return "";
}

}  // namespace

std::vector<MpsGpu> find_mps_gpus(const std::vector<std::string>& names, const gpu::NvmlSurvey& survey) {
  std::vector<MpsGpu> found;
  for (const std::string& name : names) {
    const auto gpu = std::ranges::find_if(
        survey.gpus, [&](const gpu::GpuSurvey& each) { return gpu::is_called(each.identity, name); });
    if (gpu == survey.gpus.end()) {
      MpsGpu absent;
      absent.identity.uuid = name;
      absent.identity.index = -1;
      absent.refusal =
          fmt::format("no MPS daemon for {}: there is no such GPU; lowgear doctor lists those there are", quote(name));
      found.push_back(std::move(absent));
      continue;
    }
    const bool again =
        std::ranges::any_of(found, [&](const MpsGpu& other) { return other.identity.uuid == gpu->identity.uuid; });
    if (!again) found.push_back({.identity = gpu->identity, .refusal = refusal_of(*gpu)});
  }
  return found;
}

}  // namespace lowgear::agent
