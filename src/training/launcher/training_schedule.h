#pragma once

#include "planning/schedule/schedule.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/train_config.h"

namespace lowgear::launcher {

/// The schedule that a configuration names, by name or as a file (PyTorch's CSV), with its communication written out
/// and proved to run even where a send blocks until it is received. Throws InputError when it is invalid, can hang, or
/// has other ranks and microbatches than the configuration, and when the model cannot be divided over its stages and
/// the ranks of each.
[[nodiscard]] schedule::Schedule training_schedule(const TrainConfig& config);

/// The layout of a job's ranks whose pipelines run `schedule`.
[[nodiscard]] RankLayout training_layout(const protocol::JobParallel& parallel, const schedule::Schedule& schedule);

}  // namespace lowgear::launcher
