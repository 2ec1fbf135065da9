#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/progress.h"
#include "control/server/planning/job_schedule.h"
#include "control/server/planning/measured_profile.h"
#include "control/server/planning/solved_pipelines.h"
#include "planning/adapt/replan.h"
#include "planning/budget/stagger.h"
#include "planning/plan/plan.h"
#include "planning/planner/policies/envpipe/envpipe_reconfiguration.h"
#include "planning/schedule/schedule.h"

namespace lowgear::server {

/// What a power cap holds for.
enum class CapScope : unsigned char { gpu, node, job };
[[nodiscard]] std::string_view name(CapScope scope);
/// Throws InputError naming the scopes.
[[nodiscard]] CapScope cap_scope_from_name(const JsonView& value);

struct PowerLimit {
  CapScope scope = CapScope::gpu;
  std::optional<double> watts;    ///< peak
  std::optional<double> swing_w;  ///< between phases of the pipeline
  friend bool operator==(const PowerLimit&, const PowerLimit&) = default;
};

/// In words: `300 W a GPU at most`; `no power limit`.
[[nodiscard]] std::string describe(const std::optional<PowerLimit>& limit);

/// The policy `envpipe` of a job.
struct EnvPipeRequest {
  protocol::JobEnvPipe settings;
  planner::EnvPipeState state;  ///< without clocks: they are those that its profiling finds
  /// What an iteration measured, by op of the first replica; empty: nothing is decided, the plan is that of the state.
  std::vector<double> receive_s;
};

struct EnvPipeOutcome {
  planner::EnvPipeState state;
  int path = 0;         ///< units on the critical path
  int raised = 0;       ///< of which the clock rises
  std::string problem;  ///< why nothing was decided; empty: it was, or nothing was asked for
  bool is_finished = false;
};

/// What a plan has to take into account.
struct PlanningConditions {
  double slowdown_pct = 0;                ///< how much longer than the fastest plan
  std::vector<adapt::RankSlowdown> slow;  ///< positions that are slower than profiled
  std::optional<PowerLimit> power;
  std::vector<std::vector<int>> node_of_gpu;  ///< by dp and pp rank; for caps on nodes
  /// EnvPipe's reconfiguration, by waits that ranks report, of a job that states that policy. It knows neither slow
  /// ranks nor a slowdown.
  std::optional<EnvPipeRequest> envpipe;
  /// Early forwards of the schedule `envpipe` that the ranks run, to be compared with what the profile's times ask for.
  /// Empty: that is not wanted.
  std::vector<int> early_forwards = {};
  /// Of all jobs without the former. A power cap goes before every policy but Lowgear's.
  protocol::JobPolicy policy = protocol::JobPolicy::lowgear;
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
  bool simulated = false;
};

/// Of models whose pipelines are the same it is equal, whatever their replicas.
[[nodiscard]] std::size_t fingerprint(const PipelineModel& model);

/// The power of all GPUs of a job, tp included: *planned*.
struct PlannedPower {
  budget::JobCycle cycle;  ///< of an iteration, until its slowest pipeline is done. Of time 0: not known
  double waiting_w = 0;    ///< after it
};

/// Early forwards of the schedule `envpipe`, by rank.
struct JobOrder {
  std::vector<int> present;  ///< that the ranks run
  std::vector<int> fitting;  ///< by the profile's times, with at most as many activations
  std::vector<int> wanted;   ///< by the profile's times, whatever memory holds
  std::string problem = {};  ///< why the last two are not known; empty: they are
};

/// Clocks for all of a job's ranks.
struct JobPlan {
  std::vector<plan::Plan> plans;
  std::vector<int> plan_of_replica;                     ///< by dp rank
  std::vector<std::vector<double>> expected_compute_s;  ///< by plan and pp rank, at profiled speed
  double time_s = 0;                                    ///< of an iteration
  double energy_j = 0;                                  ///< of all GPUs, tp included
  PlannedPower power;
  double fastest_time_s = 0;  ///< of an iteration under the same conditions
  /// How many times as long an iteration at full clocks takes as it would if no rank were slow.
  double full_clock_scale = 1;
  std::vector<std::pair<double, double>> frontier;  ///< (time_s, energy_j) of one pipeline: with its slow ranks where
                                                    ///< all pipelines have the same, else without
  std::string note;                                 ///< a note for the user; may be empty
  std::optional<EnvPipeOutcome> envpipe;            ///< of a plan by that policy
  std::optional<JobOrder> order;                    ///< where the conditions want it
};

/// Whether a profile is good enough.
struct ProfileVerdict {
  std::vector<int> more_clocks_mhz;  ///< to be measured next; empty: good enough
  double energy_error_pct = 0;       ///< of the plan that the profile leads to, one standard error
  std::string reason;
};

/// A plan that took milliseconds to make.
struct QuickPlan {
  JobPlan plan;
  bool is_best = false;  ///< `JobPlanner::plan` knows none better
};

/// Plans for one job, with what has been solved for any job whose pipelines are the same. Pure but for that.
/// `quick_plan` may be called while another thread is in `plan` or `judge_profile`.
class JobPlanner {
 public:
  /// `progress` (may be null) receives how far work has come, on the threads that call; an exception of it ends that
  /// work. `solved` is what jobs share. Throws InputError when the profile does not have what the schedule needs.
  explicit JobPlanner(std::shared_ptr<const PipelineModel> model, std::shared_ptr<Progress> progress = nullptr,
                      std::shared_ptr<SolvedPipelines> solved = std::make_shared<SolvedPipelines>());
  ~JobPlanner();
  JobPlanner(const JobPlanner&) = delete;
  JobPlanner& operator=(const JobPlanner&) = delete;

  /// The best plan known for these conditions, and what they want to know of the order. Throws InputError when there is
  /// none (a power cap below what the slowest plan needs), saying what would do.
  [[nodiscard]] JobPlan plan(const PlanningConditions& conditions);
  /// A plan that keeps the conditions and takes milliseconds to make: with what has been solved already, pipelines with
  /// a straggler that is new run at full clocks, and the replicas that wait for it slow down. None when nothing can be
  /// had so quickly, or nothing saved by it.
  [[nodiscard]] std::optional<QuickPlan> quick_plan(const PlanningConditions& conditions);
  [[nodiscard]] ProfileVerdict judge_profile(const PlanningConditions& conditions) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowgear::server
