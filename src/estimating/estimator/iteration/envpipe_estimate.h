#pragma once

#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/profile/columns/stage_columns.h"

namespace lowgear::estimator {

/// Gives EnvPipe's options what EnvPipe measures when it begins, from an estimate: the activations that fit into memory
/// beyond those of 1F1B, and the time of the message from each stage to the next one (none where messages run
/// concurrently with computation). Throws InputError as activations_that_fit.
void complete_from(const JobEstimate& estimate, planner::EnvPipeOptions& options);

/// The columns of the emitted profile: activations of a microbatch by stage, with their share of fragmentation, where
/// each rank runs one stage in 1F1B's order; the message from each stage to the next one, where messages do not run
/// concurrently with computation.
[[nodiscard]] profile::StageColumns emitted_columns(const JobEstimate& estimate);

}  // namespace lowgear::estimator
