#pragma once

#include <span>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/cluster.h"

namespace lowgear::workflow {

/// A position of the job that runs slower than profiled: one GPU, or the slowest of its tensor-parallel shards.
struct RankSlowdown {
  int replica = 0;  ///< data-parallel copy of the pipeline
  int rank = 0;     ///< place in the pipeline
  double factor = 1;
};

/// Replicas with the same slowdowns: one plan serves them all.
struct ReplicaGroup {
  std::vector<int> replicas;  ///< rising
  std::vector<simulator::StageSlowdown> slowdowns;
  profile::StageProfile profile;  ///< slowed; plan with it
  double fastest_time_s = 0;      ///< one iteration at the fastest clocks, *replayed*
};

/// How to plan the replicas of a job so that all finish at the same time.
struct Replan {
  double fastest_time_s = 0;  ///< of the job: its slowest replica at the fastest clocks
  double deadline_s = 0;      ///< for the plan of every group
  /// By their first replica. The group that sets the pace is among them: its plan's deadline has no room beyond what
  /// the user allows, the others' have.
  std::vector<ReplicaGroup> groups;
};

/// Times of the slowed stages are multiplied by the factor and so are energies: a slow GPU is taken to draw the power
/// that it was profiled with (`StageSlowdown`). A throttled GPU draws less; its energy is then overestimated, by the
/// same factor for every plan of the group.
[[nodiscard]] profile::StageProfile slowed_profile(const profile::StageProfile& profile,
                                                   std::span<const simulator::StageSlowdown> slowdowns);

/// Splits a job of `replicas` copies of the pipeline into groups. Several slowdowns of one position multiply; those
/// that come to 1 are none. `allowed_slowdown_pct`: how much longer than at the fastest clocks an iteration may take.
/// Throws InputError when a replica or rank is out of range, a factor is not above 0 and at most kMaxSlowdownFactor,
/// the allowance is not in [0, 1000], `replicas` not in [1, 65536], or the profile lacks what the pipeline needs.
[[nodiscard]] Replan replan(const schedule::PipelineDag& dag, const profile::StageProfile& profile, int replicas,
                            std::span<const RankSlowdown> slowdowns, double allowed_slowdown_pct);

/// Time and energy of an iteration of the whole job with one plan for each group, made with its profile, replicas that
/// are done waiting for the slowest at `blocking_power_w` (of one pipeline, all its GPUs). *Planned*. Throws InputError
/// unless there is one plan for each group.
[[nodiscard]] simulator::PipelineFigures job_figures(const Replan& replan, std::span<const plan::Plan> plans,
                                                     double blocking_power_w);

}  // namespace lowgear::workflow
