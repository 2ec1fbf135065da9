#pragma once

#include <string>

#include "app/cli/arguments/price_arguments.h"
#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/planned_estimate.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::cli {

/// What clocks would save, as a table for people, and as an object of `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] std::string planned_text(const estimator::PlannedEstimate& planned, int gpus,
                                       const PriceArguments& prices);
[[nodiscard]] Json planned_json(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices);

/// The command that plans on an emitted profile.
[[nodiscard]] std::string plan_command(const estimator::TrainingJob& job, const std::string& profile);

}  // namespace lowgear::cli
