#pragma once

#include <string>
#include <vector>

#include "app/cli/arguments/estimate_input.h"
#include "base/core/formats/json.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/search/search.h"
#include "rivals/published_estimator/published_formula.h"

namespace lowgear::cli {

/// The estimate as text. A job that does not fit into memory says so first.
[[nodiscard]] std::string estimate_text(const estimator::JobEstimate& estimate);

/// An empty line and a line for each note; empty without notes.
[[nodiscard]] std::string notes_text(const std::vector<std::string>& notes);

/// The estimate as an object of the format `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] Json estimate_json(const estimator::JobEstimate& estimate);

/// A layout as an object of `lowgear.search/1` (docs/formats.md).
[[nodiscard]] Json search_layout_json(const estimator::SearchLayout& layout);

/// The savings of planned clocks, as a table and as an object of `lowgear.estimate/1` (docs/formats.md).
[[nodiscard]] std::string planned_text(const estimator::PlannedEstimate& planned, int gpus,
                                       const PriceArguments& prices);
[[nodiscard]] Json planned_json(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices);

/// The command line that plans on an emitted profile.
[[nodiscard]] std::string plan_command(const estimator::TrainingJob& job, const std::string& profile);

/// Output of `lowgear estimate --peer-formula`: the iteration, its parts, and every prediction that went into them.
[[nodiscard]] std::string published_estimate_text(const published_estimator::PublishedEstimate& estimate);

/// The same figures as an object.
[[nodiscard]] Json published_estimate_json(const published_estimator::PublishedEstimate& estimate);

}  // namespace lowgear::cli
