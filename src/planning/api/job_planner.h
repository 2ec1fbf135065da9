#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/core/progress.h"
#include "planning/api/pipeline_solver.h"
#include "planning/api/plan_request.h"
#include "planning/api/power/stagger.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/cluster.h"

namespace lowgear::api {

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
/// the allowance is not in [0, 1000], `replicas` not in [1, 65536], or the profile lacks a cell of the pipeline.
[[nodiscard]] Replan replan(const schedule::PipelineDag& dag, const profile::StageProfile& profile, int replicas,
                            std::span<const RankSlowdown> slowdowns, double allowed_slowdown_pct);

/// Time and energy of an iteration of the whole job with one plan for each group, made with its profile, replicas that
/// are done waiting for the slowest at `blocking_power_w` (of one pipeline, all its GPUs). *Planned*. Throws InputError
/// unless there is one plan for each group.
[[nodiscard]] simulator::PipelineFigures job_figures(const Replan& replan, std::span<const plan::Plan> plans,
                                                     double blocking_power_w);

/// The pipelines of a job: replicas of one, which must outlive this.
struct JobPipelines {
  const ProfiledPipeline* pipeline = nullptr;
  int replicas = 1;       ///< data-parallel copies, dp
  int gpus_per_rank = 1;  ///< tensor-parallel shards, tp
  planner::PlannerOptions planner = {};
  std::string gpu_name = {};  ///< written into the plans; empty: not stated
  double clock_lead_s = 0;    ///< written into the plans (`plan::Plan`)
};

/// One plan for each group of replicas that have the same slow ranks.
struct GroupPlans {
  std::vector<plan::Plan> plans;  ///< by group of the `Replan`
  std::string note;               ///< of the policy or the cap; may be empty
};

/// The power of all GPUs of a job, tp included: *planned*.
struct PlannedPower {
  JobCycle cycle;        ///< of an iteration, until its slowest pipeline is done. Of time 0: not known
  double waiting_w = 0;  ///< after it
};

/// Clocks for all ranks of a job.
struct JobPlan {
  std::vector<plan::Plan> plans;
  std::vector<int> plan_of_replica;
  std::vector<std::vector<double>> expected_compute_s;  ///< by plan and rank, at profiled speed
  double time_s = 0;                                    ///< of an iteration
  double energy_j = 0;                                  ///< of all GPUs, tp included
  PlannedPower power;
  double fastest_time_s = 0;  ///< of an iteration under the same conditions
  /// How many times as long an iteration at full clocks takes as it would if no rank were slow.
  double full_clock_scale = 1;
  /// (time_s, energy_j) of one pipeline: with its slow ranks where all pipelines have the same, else without.
  std::vector<std::pair<double, double>> frontier;
  std::string note;  ///< a note for the user; may be empty
};

/// A plan that took milliseconds to make.
struct QuickPlan {
  JobPlan plan;
  bool is_best = false;  ///< `JobPlanner::plan` knows none better
};

/// A policy's choices, replayed, as a plan for `deadline_s`, or for the time that it takes where that is longer.
[[nodiscard]] plan::Plan plan_of_answer(std::string policy, const planner::PlanningProblem& problem,
                                        const planner::PolicyPlan& answer, double switch_latency_s, double deadline_s);

/// The planner of a job: of the command line, of the server and of Python. The same request gives the same plan. Pure
/// but for what `solver` keeps. `quick_plan` may be called while another thread is in `plan`.
class JobPlanner {
 public:
  /// `solver` must outlive it; `progress` (may be null) too, and hears how far work has come, on the threads that call;
  /// an exception of it ends that work. Throws InputError when the profile lacks a cell of the schedule.
  JobPlanner(JobPipelines job, PipelineSolver& solver, Progress* progress = nullptr);

  /// The groups of replicas under a request, and the time that they have.
  [[nodiscard]] Replan split(const PlanRequest& request) const;
  /// The plans of the groups. Throws InputError when there are none (a power cap below what the slowest plan needs, a
  /// deadline that cannot be kept), saying what would do.
  [[nodiscard]] GroupPlans plan_groups(const Replan& split, const PlanRequest& request) const;
  /// The best plan known, with its time and energy. Throws as `plan_groups`.
  [[nodiscard]] JobPlan plan(const PlanRequest& request) const;
  /// A plan that keeps the request and takes milliseconds to make: with what has been solved already, pipelines with a
  /// straggler that is new run at full clocks, and the replicas that wait for it slow down. None when nothing can be
  /// had so quickly, or nothing saved by it.
  [[nodiscard]] std::optional<QuickPlan> quick_plan(const PlanRequest& request) const;
  /// The figures of plans that were made elsewhere, one for each group. Without a frontier.
  [[nodiscard]] JobPlan assemble(const Replan& split, GroupPlans made) const;
  /// Why the plans are in doubt: one is faster than full clocks. Empty where none is.
  [[nodiscard]] std::optional<std::string> finding(const Replan& split, std::span<const plan::Plan> plans) const;

  /// No rank is slow.
  [[nodiscard]] const Replan& unslowed() const { return unslowed_; }

 private:
  using Solved = PipelineSolver::Solved;

  [[nodiscard]] PipelineProblem problem(const ReplicaGroup& group) const;
  [[nodiscard]] planner::PlanningProblem policy_problem(const ReplicaGroup& group) const;
  [[nodiscard]] Solved find_prepared(const ReplicaGroup& group) const;
  [[nodiscard]] plan::Plan solved_plan(const SolvedPipeline& solved, const Replan& split,
                                       const PlanRequest& request) const;
  void take_bound(const ReplicaGroup& group, plan::Plan& plan) const;
  [[nodiscard]] plan::Plan full_clocks(const ReplicaGroup& group) const;
  [[nodiscard]] GroupPlans by_lowgear(const Replan& split, const PlanRequest& request) const;
  [[nodiscard]] GroupPlans by_policy(const Replan& split, const PlanRequest& request) const;
  [[nodiscard]] GroupPlans within_cap(const Replan& split, const PlanRequest& request) const;
  [[nodiscard]] PlannedPower power_of(const Replan& split, std::span<const plan::Plan> plans, double time_s) const;
  [[nodiscard]] std::vector<double> expected_compute_s(const plan::Plan& plan) const;

  JobPipelines job_;
  std::shared_ptr<const schedule::Schedule> schedule_;
  PipelineSolver* solver_;
  Progress* progress_;
  Replan unslowed_;
};

}  // namespace lowgear::api
