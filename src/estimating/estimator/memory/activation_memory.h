#pragma once

/// Bytes of activations of one microbatch on one of the tp ranks of a stage, by place.

#include <vector>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {

/// Bytes of an activation's element. Inputs of the layers' matrix products are an exception: fp8 and fp4 keep them as
/// they are read.
[[nodiscard]] double activation_bytes(DataType dtype);

/// Tokens of a microbatch on one cp rank, before tp ranks divide them.
[[nodiscard]] double tokens_of_rank(const TrainingJob& job);

/// Activations of a layer without recomputation.
[[nodiscard]] double kept_without_recompute(const TrainingJob& job);

/// What recomputation of operators keeps of a layer.
[[nodiscard]] double kept_with_operators(const TrainingJob& job);

/// The part of them that selective recomputation drops: the scores of unfused attention.
[[nodiscard]] double score_bytes(const TrainingJob& job);

/// The input of a layer, which is also the message between stages.
[[nodiscard]] double layer_input_bytes(const TrainingJob& job);

/// Kept before the first layer: the mask of dropout, the input of a norm of the embedding.
[[nodiscard]] double embedding_activation_bytes(const TrainingJob& job);

/// Kept after the last layer: inputs of the final norm and of the output matrix, and what the loss keeps (Korthikanti
/// et al. 2022, section 4.3: 4 s b h / t (1 + v / h), with probabilities in fp32).
[[nodiscard]] double head_activation_bytes(const TrainingJob& job);

/// The part of them that the loss keeps.
[[nodiscard]] double kept_logit_bytes(const TrainingJob& job);

/// Most additional memory during the backward of the largest layer: gradients of activations, gathered inputs with
/// sequence parallelism, keys and values in transfer with context parallelism, recomputed activations.
[[nodiscard]] double layer_workspace_bytes(const TrainingJob& job);

/// The same for the head: logits as the product writes them, and their gradients.
[[nodiscard]] double head_workspace_bytes(const TrainingJob& job);

/// Number of microbatches whose activations fit into the memory of each pipeline rank at once, at most all: those that
/// 1F1B holds, and more in the memory that `memory` leaves free, with their share of fragmentation. EnvPipe measures
/// this with the allocator. Throws InputError unless the schedule is 1f1b with one stage a rank, and if the job does
/// not fit.
[[nodiscard]] std::vector<int> activations_that_fit(const TrainingJob& job, const MemoryEstimate& memory);

/// Bytes of one microbatch's activations on each pipeline rank, with their share of fragmentation. The schedule is 1f1b
/// with one stage a rank.
[[nodiscard]] std::vector<double> activation_bytes_of_ranks(const TrainingJob& job, const MemoryEstimate& memory);

}  // namespace lowgear::estimator
