#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "estimating/model/partition.h"
#include "planning/schedule/schedule.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"

namespace lowgear::launcher {

/// The stages of which nothing is trained when the embedding and the first `blocks` blocks are frozen, 0: nothing. The
/// last stage always has the output layer to train.
[[nodiscard]] int frozen_stages(std::span<const model::LayerRange> partition, std::int64_t blocks);

/// The schedule that a configuration names (or `early_forwards` where they are there: EnvPipe's own order), by name or
/// as a file (PyTorch's CSV), without the backwards of stages that are frozen with the first `frozen_blocks` blocks,
/// with its communication written out and proved to run even where a send blocks until it is received. Throws
/// InputError when it is invalid, can hang, or has other ranks and microbatches than the configuration, and when the
/// model cannot be divided over its stages and the ranks of each.
[[nodiscard]] schedule::Schedule training_schedule(const TrainConfig& config, std::int64_t frozen_blocks,
                                                   std::span<const int> early_forwards = {});
/// With the blocks that are frozen from the first step on.
[[nodiscard]] schedule::Schedule training_schedule(const TrainConfig& config);
/// Its forwards alone, of the first `microbatches`: they evaluate.
[[nodiscard]] schedule::Schedule evaluation_schedule(const TrainConfig& config, int microbatches);

/// The layout of a job's ranks whose pipelines run `schedule`.
[[nodiscard]] RankLayout training_layout(const protocol::JobParallel& parallel, const schedule::Schedule& schedule);

// The order of the schedule `envpipe`: how many forwards each rank runs early, within the memory that the job has.

/// By the findings about the stages, within `energy.envpipe.memory_limit`. Without a limit, or with one in bytes, which
/// cannot be divided before a microbatch's activations are measured, within the memory of 1F1B. The note states where
/// that is less than the rule asks for, and which setting changes it.
[[nodiscard]] policies::EnvPipeOrder order_in_memory(const EnvPipeMemory& memory, int microbatches,
                                                     const policies::EnvPipeFindings& found);

/// The order with which the job starts: the configured early forwards, or by the times of the profile of the policy
/// `envpipe`. With neither: that of equal stages, whose backward takes twice the time of a forward. Throws InputError
/// for virtual stages, and as findings_on_profile.
[[nodiscard]] policies::EnvPipeOrder starting_order(const TrainConfig& config);
/// A note for people about that order; empty: the schedule is another one, or its order follows its rule.
[[nodiscard]] std::string starting_note(const TrainConfig& config);

}  // namespace lowgear::launcher
