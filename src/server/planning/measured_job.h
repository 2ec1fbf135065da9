#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/api/job_planner.h"
#include "planning/schedule/schedule.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "server/planning/planning_inputs.h"
#include "server/planning/solved_pipelines.h"

namespace lowgear::server {

using api::JobPlan;
using api::PowerCap;

/// The policy `envpipe` of a job.
struct EnvPipeRequest {
  protocol::JobEnvPipe settings;
  policies::EnvPipeState state;  ///< without clocks: they are those that its profiling finds
  /// Waits of an iteration, by op of the first replica; empty: no decision, the plan is that of the state.
  std::vector<double> receive_s;
};

struct EnvPipeOutcome {
  policies::EnvPipeState state;
  int path = 0;         ///< units on the critical path
  int raised = 0;       ///< of which the clock rises
  std::string problem;  ///< why nothing was decided; empty: it was, or nothing was asked for
  bool is_finished = false;
};

/// A job's iterations at full clocks, as means of measured ones.
struct FullClockIteration {
  double time_s = 0;
  double energy_j = 0;        ///< of all GPUs
  double energy_error_j = 0;  ///< one standard error
};

/// The conditions of a plan.
struct PlanningConditions {
  api::PlanRequest request;
  /// EnvPipe's reconfiguration, by waits that ranks report, of a job that states that policy. It knows neither slow
  /// ranks nor a slowdown.
  std::optional<EnvPipeRequest> envpipe = {};
  /// Early forwards of the schedule `envpipe` that the ranks run, to be compared with the order of the profile's times.
  /// Empty: no comparison.
  std::vector<int> early_forwards = {};
  /// The profile has to agree with it. Empty: no check.
  std::optional<FullClockIteration> full_clocks = {};
};

/// A job's pipelines as they can be planned for. Does not change.
struct PipelineModel {
  schedule::Schedule schedule;
  protocol::JobParallel parallel;
  std::string gpu;
  MeasuredProfile measured;
  std::vector<int> clocks_mhz;  ///< that every GPU of the job supports, highest first
  /// From asking for a clock until it is in effect: agents ask by that much ahead, so that plans are as without it.
  double switch_latency_s = 0;
};

/// Of models whose pipelines are the same it is equal, whatever their replicas.
[[nodiscard]] std::size_t fingerprint(const PipelineModel& model);

/// Early forwards of the schedule `envpipe`, by rank.
struct JobOrder {
  std::vector<int> present;  ///< that the ranks run
  std::vector<int> fitting;  ///< by the profile's times, with at most as many activations
  std::vector<int> wanted;   ///< by the profile's times, whatever memory holds
  std::string problem = {};  ///< why the last two are not known; empty: they are
};

/// A plan, and the further results that its conditions ask for.
struct PlannedJob {
  JobPlan plan;
  std::optional<EnvPipeOutcome> envpipe;  ///< of a plan by that policy
  std::optional<JobOrder> order;          ///< where the conditions ask for it
  std::string doubts = {};                ///< why figures of the plan may be wrong; empty: nothing says so
};

/// Whether a profile is good enough.
struct ProfileVerdict {
  std::vector<int> more_clocks_mhz;  ///< to be measured next; empty: good enough
  double energy_error_pct = 0;       ///< of the plan that the profile leads to, one standard error
  std::string reason;
  std::string contradiction = {};  ///< of the profile and iterations at full clocks; empty: there is none
};

/// Plans for one job from the measurements of its ranks, with the solved pipelines of all jobs. Pure but for that.
/// `quick_plan` may be called while another thread is in `plan` or `judge_profile`.
class MeasuredJob {
 public:
  /// `progress` (may be null) receives progress on the calling threads; an exception of it ends that
  /// work. Jobs share `solved`. Throws InputError when the profile lacks a stage or kind of the schedule.
  explicit MeasuredJob(std::shared_ptr<const PipelineModel> model, std::shared_ptr<Progress> progress = nullptr,
                       std::shared_ptr<SolvedPipelines> solved = std::make_shared<SolvedPipelines>());
  MeasuredJob(const MeasuredJob&) = delete;
  MeasuredJob& operator=(const MeasuredJob&) = delete;

  /// The best plan for these conditions, and the order that they ask for. Throws as
  /// `api::JobPlanner::plan`.
  [[nodiscard]] PlannedJob plan(const PlanningConditions& conditions) const;
  /// As `api::JobPlanner::quick_plan`; none for EnvPipe's reconfiguration.
  [[nodiscard]] std::optional<api::QuickPlan> quick_plan(const PlanningConditions& conditions) const;
  /// As `PlannedJob` states them.
  [[nodiscard]] std::string doubts(const PlanningConditions& conditions, const JobPlan& plan) const;
  [[nodiscard]] ProfileVerdict judge_profile(const PlanningConditions& conditions) const;
  /// Why the profile's energy at full clocks cannot be that of these iterations; empty: it can. An iteration may take
  /// longer than its pipelines, in which GPUs draw their waiting power at least, and that of their units at most. The
  /// rest may differ by 10 %, or three standard errors where that is more.
  [[nodiscard]] std::string contradiction(const FullClockIteration& measured) const;

 private:
  [[nodiscard]] PlannedJob by_envpipe(const EnvPipeRequest& request) const;

  std::shared_ptr<const PipelineModel> model_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<SolvedPipelines> solved_;
  api::ProfiledPipeline pipeline_;
  api::JobPlanner planner_;  ///< of the rest
};

}  // namespace lowgear::server
