#pragma once

/// Bytes of activations of one microbatch on one of the tp ranks of a stage, by where they are.

#include <vector>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {

/// Bytes of an activation's element, but for inputs of the layers' matrix products, which fp8 keeps in a byte.
[[nodiscard]] double activation_bytes(DataType dtype);

/// Tokens of a microbatch that a rank works on, all tp ranks of its group together.
[[nodiscard]] double tokens_of_rank(const TrainingJob& job);

/// What a layer keeps, were nothing computed again.
[[nodiscard]] double kept_without_recompute(const TrainingJob& job);

/// What selective recomputation drops of it: the scores of unfused attention.
[[nodiscard]] double score_bytes(const TrainingJob& job);

/// The input of a layer, which is also what passes between stages.
[[nodiscard]] double layer_input_bytes(const TrainingJob& job);

/// Kept before the first layer: the mask of dropout, the input of a norm of the embedding.
[[nodiscard]] double embedding_activation_bytes(const TrainingJob& job);

/// Kept after the last layer: inputs of the final norm and of the output matrix, and the probabilities in fp32
/// (Korthikanti et al. 2022, section 4.3: 4 s b h / t (1 + v / h)).
[[nodiscard]] double head_activation_bytes(const TrainingJob& job);

/// What the backward of the largest layer needs at one moment in addition to what is kept: gradients of activations,
/// gathered inputs with sequence parallelism, keys and values on their way with context parallelism, and what is
/// computed again.
[[nodiscard]] double layer_workspace_bytes(const TrainingJob& job);

/// The same of the head: logits as the product writes them, and their gradient.
[[nodiscard]] double head_workspace_bytes(const TrainingJob& job);

/// The activations of how many microbatches fit into the memory of each pipeline rank at once, at most those of all
/// microbatches: what 1F1B holds, and as many more as fit into what `memory` leaves free, with their share of
/// fragmentation. EnvPipe measures this with the allocator. Throws InputError unless the schedule is 1f1b with one
/// stage a rank, and where the job does not fit.
[[nodiscard]] std::vector<int> activations_that_fit(const TrainingJob& job, const MemoryEstimate& memory);

/// Bytes of one microbatch's activations on each pipeline rank, with their share of fragmentation. The schedule is 1f1b
/// with one stage a rank.
[[nodiscard]] std::vector<double> activation_bytes_of_ranks(const TrainingJob& job, const MemoryEstimate& memory);

}  // namespace lowgear::estimator
