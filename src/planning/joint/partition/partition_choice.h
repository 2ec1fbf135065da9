#pragma once

#include <functional>
#include <limits>

#include "base/core/progress.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/profile/layers/layer_profile.h"

namespace lowgear::joint {

/// A partition with what orders in it can reach at the deadline that it was rated for.
struct RatedPartition {
  profile::Partition partition;
  double least_time_s = 0;  ///< no order is faster (`joint_bound`)
  /// No order that keeps the deadline uses less; infinite where none can keep it.
  double bound_j = std::numeric_limits<double>::infinity();
  /// What its orders use, as `EnergyAtDeadline` has it; infinite where none keeps the deadline, and where it was not
  /// computed.
  double energy_j = std::numeric_limits<double>::infinity();
};

struct PartitionChoice {
  RatedPartition chosen;
  RatedPartition given;
  int tried = 0;  ///< partitions whose bound was computed
};

/// The problem with the layers where a partition places them.
[[nodiscard]] JointProblem with_partition(const JointProblem& problem, const profile::LayerProfile& layers,
                                          const profile::Partition& partition);

/// What the plan for the deadline uses in an order of the problem, in J; infinite where none keeps it.
using EnergyAtDeadline = std::function<double(const JointProblem&)>;

/// Moves layers between ranks so that an iteration of at most `deadline_s` uses less energy. First by the bound over
/// all orders: from the given partition and the one of the least costly stage, by moves of one layer from one rank to
/// another, as long as they lower it. Then `energy_j_of` is asked for the few partitions of the lowest bounds and for
/// the given one, and the one that uses least is chosen: never one that uses more than the given one.
/// Where no partition keeps the deadline, the fastest bound is best. Heuristic: that no other partition is better is
/// not proven. Deterministic; counts bound the work. `problem` has the given partition's profile, and its memory limit
/// is in microbatches of the rank's own layers, whichever partition it is. Throws InputError as `joint_bound`,
/// `energy_j_of` and `stage_profile_of` do, and what `progress`, which may be null, throws.
[[nodiscard]] PartitionChoice choose_partition(const JointProblem& problem, const profile::LayerProfile& layers,
                                               const profile::Partition& given, double deadline_s,
                                               const EnergyAtDeadline& energy_j_of, Progress* progress = nullptr);

}  // namespace lowgear::joint
