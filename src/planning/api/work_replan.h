#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/op_kind.h"
#include "base/core/progress.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/layers/layer_profile.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/cluster.h"

namespace lowgear::api {

/// Layers [begin, end) whose time and energy change by a factor: another precision.
struct LayerScale {
  int begin = 0;
  int end = 0;
  double time_factor = 1;
  double energy_factor = 1;
  std::optional<OpKind> kind = {};  ///< empty: all
};

/// Whether the layers repeat their forward before their backward.
enum class Recomputation {
  as_measured,
  added,    ///< the profile was measured without
  removed,  ///< the profile was measured with recomputation of whole layers
};

/// What of a job's work differs from the profile. Microbatches are not here: the schedule has them.
struct WorkChange {
  int frozen_layers = 0;  ///< the first ones, and with them the embedding; at least the last layer trains
  std::vector<LayerScale> scales = {};
  Recomputation recomputation = Recomputation::as_measured;
};

/// Of a share of the weight gradients of `layers` layers that is left out, on the average of many steps. Where a
/// backward is one operation, half of it is taken to be weight gradients: attention's products, which have none, make
/// that too much. Throws InputError when the share is not in [0, 1).
[[nodiscard]] std::vector<LayerScale> dropped_weight_gradients(int layers, double share);

/// Largest factor of a scale; the least is its inverse.
inline constexpr double kMaxWorkFactor = 1000;

/// The profile of the changed work, *planned*: a frozen layer has no backward of any kind; a recomputed one has its
/// forward in the backward (the input gradient, where backwards are split), both scaled. The first layer that trains
/// keeps its whole input gradient, most of which its weight gradients need. Throws InputError when a layer is out of
/// range, a factor is not in [1/kMaxWorkFactor, kMaxWorkFactor], nothing trains, or recomputation is removed from a
/// layer whose backward takes no more than its forward.
[[nodiscard]] profile::LayerProfile changed_profile(const profile::LayerProfile& profile, const WorkChange& change);

/// The work of an iteration, against the profile that all of it is planned from.
struct Work {
  WorkChange change = {};
  schedule::Schedule schedule;  ///< computations only, as if nothing were frozen
};

/// How long an iteration of the new work may take, per microbatch.
enum class StepTime {
  own_fastest,  ///< its own T_min: the job becomes as fast as it can
  old_time,     ///< that of the plan before: the job keeps its speed, and all that is saved is energy
};

struct WorkReplanRequest {
  profile::LayerProfile profile;         ///< with nothing frozen
  std::vector<double> blocking_power_w;  ///< by rank
  Work before;
  profile::Partition partition;  ///< of the job now
  /// Of the plan that the job follows now; empty: its T_min. Later than T* gives the plan for T*.
  std::optional<double> deadline_s = {};
  Work after;
  bool keep_partition = false;  ///< layers cannot move: an attached job
  StepTime step_time = StepTime::old_time;
  std::optional<double> after_deadline_s = {};  ///< instead of `step_time`
  planner::PlannerOptions planner = {};
};

/// A partition of some work, with a certified plan for it.
struct PlannedWork {
  profile::Partition partition;
  ProfiledPipeline pipeline;               ///< profile and schedule of this work; frozen stages run forwards only
  simulator::PipelineFigures full_clocks;  ///< everything at its highest clock, *replayed*
  CertifiedFrontier frontier;
  double fastest_s = 0;                     ///< T_min
  plan::Plan plan;                          ///< *planned*, with its lower bound
  std::optional<std::string> finding = {};  ///< the plan is faster than full clocks
};

/// Work before and after, for one GPU a rank. Iterations of different numbers of microbatches are to be compared per
/// microbatch.
struct WorkReplan {
  PlannedWork before;
  /// The new work on the old partition; absent where the deadline is earlier than its T_min.
  std::optional<PlannedWork> same_partition;
  PlannedWork after;  ///< what to switch to; the same as `same_partition` where the partition is kept
};

/// Plans again when the work of a job changes: new profile, new partition, new clocks. The partition is the one whose
/// costliest stage costs least (`balanced_partition`), the plan is certified for that partition and the schedule's
/// order; that no other partition has a plan of less energy is not proven. Throws InputError when layers are to move
/// and the schedule has several stages per rank, when the numbers of ranks differ, when the new deadline cannot be
/// kept (the message names T_min), and as `changed_profile`, `layer_profile_of` and `PipelinePlanner` do.
[[nodiscard]] WorkReplan replan_work(const WorkReplanRequest& request, Progress* progress = nullptr);

}  // namespace lowgear::api
