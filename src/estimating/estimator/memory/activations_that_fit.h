#pragma once

#include <vector>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {

/// The activations of how many microbatches fit into the memory of each pipeline rank at once, at most those of all
/// microbatches: what 1F1B holds, and as many more as fit into what `memory` leaves free, with their share of
/// fragmentation. EnvPipe measures this with the allocator. Throws InputError unless the schedule is 1f1b with one
/// stage a rank, and where the job does not fit.
[[nodiscard]] std::vector<int> activations_that_fit(const TrainingJob& job, const MemoryEstimate& memory);

/// Bytes of one microbatch's activations on each pipeline rank, with their share of fragmentation. The schedule is 1f1b
/// with one stage a rank.
[[nodiscard]] std::vector<double> activation_bytes_of_ranks(const TrainingJob& job, const MemoryEstimate& memory);

}  // namespace lowgear::estimator
