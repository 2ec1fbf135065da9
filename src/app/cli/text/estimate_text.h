#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/job_estimate.h"

namespace lowgear::cli {

/// Everything for people; that the job does not fit comes first.
[[nodiscard]] std::string estimate_text(const estimator::JobEstimate& estimate);

/// The same as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const estimator::JobEstimate& estimate);

}  // namespace lowgear::cli
