#pragma once

#include <vector>

#include "app/doctor/diagnosis.h"
#include "app/doctor/sharing_facts.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::doctor {

/// Whether jobs can share the GPUs: modes of each GPU, the Multi-Process Service, green contexts. One line for each,
/// with the next step; none of them is needed for measuring.
[[nodiscard]] std::vector<Finding> diagnose_sharing(const SharingFacts& facts, const gpu::NvmlSurvey& nvml);

}  // namespace lowgear::doctor
