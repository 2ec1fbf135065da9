#pragma once

#include <string>
#include <vector>

#include "agent/mps/mps_sharing.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::agent {

/// The GPUs of these names (UUIDs or PCI addresses), each with the reason where it cannot have a daemon: it is not
/// there, no process may use it (compute mode prohibited), or MIG is on.
[[nodiscard]] std::vector<MpsGpu> find_mps_gpus(const std::vector<std::string>& names, const gpu::NvmlSurvey& survey);

}  // namespace lowgear::agent
