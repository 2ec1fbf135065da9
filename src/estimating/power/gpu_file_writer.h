#pragma once

#include "base/core/formats/json.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::power {

/// A GPU file as parse_gpu_file reads it, its figures with six digits.
[[nodiscard]] Json to_json(const GpuFile& file);

}  // namespace lowgear::power
