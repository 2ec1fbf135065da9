#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimating/model/partition.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// A partition, with the plan for it where clocks are planned.
struct PlannedPartition {
  std::vector<model::LayerRange> partition;
  std::string plan = {};  ///< `lowgear.plan/1`; empty: none
};

/// What a job may do when its work has changed: leave the layers where they are, or move them.
struct PartitionOptions {
  PlannedPartition stay;
  PlannedPartition move;
  double saving = 0;  ///< share of a step's time (without plans) or energy that moving saves against staying
};

/// The options by FLOPs: a frozen block has a third of those of a trained one, its forward's, and a tied output matrix
/// that is frozen two thirds of its own. Moving is to the job's own partition where nothing is frozen, and else to that
/// whose costliest stage costs least (`partition_by_cost`); its saving is that of a pipeline that takes the sum of its
/// stages, and for each further microbatch as long as the costliest. `now` is the present partition.
[[nodiscard]] PartitionOptions flop_options(const TrainConfig& config, std::int64_t frozen_blocks,
                                            std::span<const model::LayerRange> now);

/// What is known when options are weighed.
struct SwitchCost {
  double step_time_s = 0;    ///< of the last step; 0: not known
  double switch_time_s = 0;  ///< that moving will take
  std::int64_t steps_left = 0;
};

/// Least saving for which layers move: below it, differences between stages that the costs do not have count more.
inline constexpr double kLeastPartitionSaving = 0.01;

/// Whether moving saves kLeastPartitionSaving or more, and in the steps that are left more than it costs.
[[nodiscard]] bool is_worth_moving(const PartitionOptions& options, const SwitchCost& cost);

/// Bytes that training keeps of one layer on a rank of a tensor-parallel group of `tp`, to be moved with it: fp32 value
/// and two moments of each parameter.
[[nodiscard]] double layer_state_bytes(const model::ModelConfig& config, int tp);

}  // namespace lowgear::launcher
