#pragma once

#include "estimating/estimator/work/block_builder.h"
#include "estimating/estimator/work/rank_groups.h"

namespace lowgear::estimator {

/// Bytes of a gradient when replicas sum them: Megatron and DeepSpeed sum fp16 in fp16, bf16 in fp32.
[[nodiscard]] double summed_gradient_bytes(const TrainingJob& job);

/// Bytes of a weight when replicas gather it: fp8 as products read it; fp4 in 16 bits, as torchtitan and Megatron
/// without `fp4_param_gather` do.
[[nodiscard]] double gathered_weight_bytes(const TrainingJob& job);

/// Adds what ZeRO 2 and 3 do with a block's weights in every microbatch. Replicas scatter gradients, since none has
/// room to sum them whole, and sum shards with the other groups that have them; with ZeRO 3 they gather weights before
/// the forward, too, and before the backward where `gathered_again`. Communication runs concurrently with the block's
/// own computation, in the backward only if the stack gathers ahead: otherwise gathers and scatters wait for each other
/// (one NCCL stream) and for the computation. ZeRO 3 also copies gradients to where they are scattered from, in the
/// type of the sum, and weights where the stack does.
void add_sharding(BlockBuilder& block, const TrainingJob& job, double parameters, const ReplicaGroups& replicas,
                  bool gathered_again);

}  // namespace lowgear::estimator
