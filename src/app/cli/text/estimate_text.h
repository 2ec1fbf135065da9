#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/job_estimate.h"

namespace lowgear {

/// Everything for people; that the job does not fit comes first.
[[nodiscard]] std::string estimate_text(const JobEstimate& estimate);

/// The same as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const JobEstimate& estimate);

}  // namespace lowgear
