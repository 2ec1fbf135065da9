#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"

/// Data-parallel clusters: n copies of a pipeline that wait for each other at the end of every iteration. A *straggler*
/// is a copy that runs slower than the others; whatever the others save by running slower too, up to its time, is free.
/// The accounting is that of Perseus (Chung et al., "Reducing Energy Bloat in Large Model Training", SOSP'24, sections
/// 4.2 and 6; and its artifact's evaluation), which every function below states as a formula.
namespace lowgear::simulator {

/// One iteration of one pipeline: its own time, and the energy that all its GPUs draw until it ends.
struct PipelineFigures {
  double time_s = 0;
  double energy_j = 0;

  friend bool operator==(const PipelineFigures&, const PipelineFigures&) = default;
};

/// `count` pipelines with equal time and energy.
struct PipelineGroup {
  PipelineFigures figures;
  int count = 1;
};

/// Time and energy of one iteration of a cluster: max t_i, and the sum of count_i (E_i + P (max t - t_i)), P being
/// `blocking_power_w`, the power that one pipeline draws with all its GPUs waiting. Throws InputError when there is no
/// pipeline or a count is below 1.
[[nodiscard]] PipelineFigures synchronise(std::span<const PipelineGroup> groups, double blocking_power_w);

/// Replay of one pipeline of a cluster.
struct PipelineRun {
  std::vector<int> clocks_mhz;           ///< by op of the graph
  std::vector<StageSlowdown> slowdowns;  ///< stages of this pipeline that run slower than profiled
  /// By op of the graph; empty: every op at its clock's fastest setting.
  std::vector<std::string> settings = {};
};

/// An iteration of a cluster, replayed.
struct ClusterTimeline {
  std::vector<Timeline> pipelines;  ///< each until its own end
  double time_s = 0;                ///< the slowest pipeline's
  double energy_j_total = 0;        ///< of all pipelines until `time_s`, one GPU a rank
};

/// Replays every pipeline on its own; those that are done wait for the slowest at blocking power. `blocking_power_w` by
/// rank, the same for all pipelines. Throws what `costs_at_clocks` and `slowed_work` throw, and InputError when
/// `runs` is empty. `progress` may be null; it hears of every pipeline.
[[nodiscard]] ClusterTimeline replay_cluster(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                             std::span<const PipelineRun> runs,
                                             std::span<const double> blocking_power_w, Progress* progress = nullptr);

/// Energy of one 1F1B (or GPipe) iteration with every op at the highest clock, that is said to take `iteration_time_s`:
///   sum over stages of M (e_F + e_B) + P (T - M (t_F + t_B)).
/// The baseline of Perseus' emulation, whose T is the fastest plan's time on its own frontier, up to 1 % off the
/// replayed time. `blocking_power_w` by stage.
[[nodiscard]] double max_clock_energy_j(const profile::StageProfile& profile, int microbatches, double iteration_time_s,
                                        std::span<const double> blocking_power_w);

/// (baseline - energy) / baseline in per cent.
[[nodiscard]] double saving_pct(double baseline_j, double energy_j);

/// Whose numbers a comparison is to give.
enum class Accounting {
  published,  ///< exactly as in the artifact's evaluation, faults included: to compare with the papers' tables
  corrected,  ///< every pipeline waits for its own remaining time, and runs the plan that is best for that
};

/// A cluster with one straggler. Times and energies are those of one pipeline with all its GPUs.
struct StragglerScenario {
  int pipelines = 1;            ///< n, the straggler included
  double factor = 1;            ///< k >= 1: the straggler takes k times as long and draws the power it did
  double blocking_power_w = 0;  ///< of one pipeline: number of its GPUs times the blocking power of one
  PipelineFigures baseline;     ///< a pipeline that is not slowed, all at the highest clock: T, E_base
};

/// The plan that a pipeline runs which has until `iteration_time_s`. published: the one of the least energy among those
/// that take no longer; corrected: the slowest of them, which on a frontier has the least energy once the waiting is
/// counted. Throws InputError when none is fast enough.
[[nodiscard]] const PipelineFigures& plan_until(std::span<const PipelineFigures> plans, double iteration_time_s,
                                                Accounting accounting);

/// Energy of one iteration in which nothing is planned: k E_base + (n - 1) (E_base + P (k T - T)).
[[nodiscard]] double baseline_cluster_energy_j(const StragglerScenario& scenario);

/// Saving of a cluster whose straggler runs the fastest plan (T, E_int) of `frontier`, and whose other pipelines run
/// the plan (t, E) of `plan_until` k T: 1 - [k E_int + (n - 1) (E + P (k T - t))] / baseline (Perseus, Fig. 7).
/// `frontier` in any order. Throws InputError when it is empty or the scenario is invalid.
[[nodiscard]] double perseus_saving_pct(const StragglerScenario& scenario, std::span<const PipelineFigures> frontier,
                                        Accounting accounting);

/// The part of it that waiting for the straggler brings beyond the fastest plan: against a cluster in which all
/// pipelines run (T, E_int), k E_int + (n - 1) (E_int + P (k T - T)) (Perseus, Fig. 8).
[[nodiscard]] double extrinsic_saving_pct(const StragglerScenario& scenario, std::span<const PipelineFigures> frontier,
                                          Accounting accounting);

/// Saving of a cluster in which every pipeline runs one and the same plan (t, E), as EnvPipe's do, which knows no
/// stragglers. corrected: 1 - [k E + (n - 1) (E + P (k t - t))] / baseline. published takes the baseline's T for the
/// plan's own time and charges the waiting of n + 1 pipelines: 1 - [k E + (n - 1) E + (n + 1) P (k T - T)] / baseline.
[[nodiscard]] double fixed_plan_saving_pct(const StragglerScenario& scenario, const PipelineFigures& plan,
                                           Accounting accounting);

}  // namespace lowgear::simulator
