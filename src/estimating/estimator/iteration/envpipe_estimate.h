#pragma once

#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/planner/policies/envpipe_options.h"

namespace lowgear::estimator {

/// Gives EnvPipe's options what EnvPipe measures when it begins, from an estimate: the activations that fit into memory
/// beyond those of 1F1B, and the time of the longest message between stages (left as it is where messages run
/// concurrently with computation). Throws InputError as activations_that_fit.
void complete_from(const JobEstimate& estimate, planner::EnvPipeOptions& options);

}  // namespace lowgear::estimator
