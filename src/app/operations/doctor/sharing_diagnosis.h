#pragma once

#include <vector>

#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/sharing_facts.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::operations::doctor {

/// Whether jobs can share the GPUs: modes of each GPU, the Multi-Process Service, green contexts. One line for each,
/// with the next step; none of them is needed for measuring.
[[nodiscard]] std::vector<Finding> diagnose_sharing(const SharingFacts& facts, const gpu::NvmlSurvey& nvml);

}  // namespace lowgear::operations::doctor
