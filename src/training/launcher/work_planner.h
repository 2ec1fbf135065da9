#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/layers/layer_profile.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/partition_choice.h"

namespace lowgear::launcher {

/// Partition and clocks of a job whose frozen blocks change, planned on a profile (`replan_work`): a step may take as
/// long as the fastest plan with nothing frozen, and so many per cent more as the job allows.
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
