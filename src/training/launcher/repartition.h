#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimating/model/partition.h"
#include "planning/profile/layers/layer_profile.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// A partition, with the plan for it where clocks are planned.
struct PlannedPartition {
  std::vector<model::LayerRange> partition;
  std::string plan = {};  ///< `lowgear.plan/1`; empty: none
};

/// The two options of a job whose work has changed: its layers stay, or they move.
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

/// The cost of moving, by which options are weighed.
struct SwitchCost {
  double step_time_s = 0;    ///< of the last step; 0: not known
  double switch_time_s = 0;  ///< estimated time of moving
  std::int64_t steps_left = 0;
};

/// Least saving for which layers move: below it, differences between stages that the costs do not have count more.
inline constexpr double kLeastPartitionSaving = 0.01;

/// Whether moving saves kLeastPartitionSaving or more, and in the steps that are left more than it costs.
[[nodiscard]] bool is_worth_moving(const PartitionOptions& options, const SwitchCost& cost);

/// Bytes that training keeps of one layer on a rank of a tensor-parallel group of `tp`, to be moved with it: fp32 value
/// and two moments of each parameter.
[[nodiscard]] double layer_state_bytes(const model::ModelConfig& config, int tp);

/// A layer that changes its place in the pipeline, and with it its weights and all that training keeps for each of
/// them.
struct LayerMove {
  std::int64_t layer = 0;
  int from = 0;  ///< positions in the pipeline
  int to = 0;

  friend bool operator==(const LayerMove&, const LayerMove&) = default;
};

/// The moves between the ranks of a pipeline when its stages get other layers, by layer. `rank_of` has the position of
/// every stage. All replicas and tensor-parallel ranks make the same moves: each sends its own part to the rank with
/// the same place in the other stage. The ends of the model, embedding and head, stay where they
/// are. Both partitions are of one model over as many stages as `rank_of` has.
[[nodiscard]] std::vector<LayerMove> layer_moves(std::span<const model::LayerRange> before,
                                                 std::span<const model::LayerRange> after,
                                                 std::span<const int> rank_of);

/// Largest number of layers that one rank sends and receives. It decides how long the moves take.
[[nodiscard]] std::int64_t busiest_rank_moves(std::span<const LayerMove> moves);

/// Partition and clocks of a job whose frozen blocks change, planned on a profile (`replan_work`): a step may take as
/// long as the fastest plan with nothing frozen, plus the percentage that the job allows.
class WorkPlanner {
 public:
  /// The configuration has a profile to repartition by. Throws InputError when that cannot be read, is not of the job's
  /// schedule and partition, or the schedule has several stages a rank.
  explicit WorkPlanner(const TrainConfig& config);

  /// With nothing frozen, on the job's own partition.
  [[nodiscard]] const PlannedPartition& first() const { return first_; }
  /// With the first `frozen_blocks` blocks frozen; `now` is the present partition. Where that cannot keep the time, it
  /// has its fastest plan. *Planned*.
  [[nodiscard]] PartitionOptions options(std::int64_t frozen_blocks, std::span<const model::LayerRange> now) const;

 private:
  /// Of an iteration.
  struct Figures {
    double time_s = 0;
    double energy_j = 0;
  };

  const TrainConfig* config_;
  schedule::Schedule schedule_;  ///< computations, nothing frozen
  profile::Partition partition_;
  profile::LayerProfile profile_;
  std::vector<double> blocking_power_w_;
  double deadline_s_ = 0;
  PlannedPartition first_;
  Figures first_figures_;
};

}  // namespace lowgear::launcher
