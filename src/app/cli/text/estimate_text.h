#pragma once

#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/job_estimate.h"

namespace lowgear::cli {

/// Everything for people; that the job does not fit comes first.
[[nodiscard]] std::string estimate_text(const estimator::JobEstimate& estimate);

/// A line for each, after an empty one; nothing where there are none.
[[nodiscard]] std::string notes_text(const std::vector<std::string>& notes);

/// The same as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const estimator::JobEstimate& estimate);

}  // namespace lowgear::cli
