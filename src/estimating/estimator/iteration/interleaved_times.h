#pragma once

#include <vector>

#include "estimating/estimator/iteration/pipeline_times.h"

namespace lowgear::estimator {

/// When each rank ends its part of the interleaved schedule (planning/schedule/generators.h), without building it:
/// ranks run their lists as far as what they wait for is known. The schedule repeats itself every round of
/// microbatches; once a whole round comes the same time after the round before on every rank, the rounds up to the last
/// ones are not run but added. The costs have several ranks, and microbatches that divide into the schedule's rounds.
[[nodiscard]] std::vector<double> interleaved_end_s(const PipelineCosts& costs);

}  // namespace lowgear::estimator
