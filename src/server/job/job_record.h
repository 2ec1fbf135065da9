#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/job_spec.h"
#include "protocol/rank_reports.h"
#include "server/job/baseline.h"
#include "server/job/iteration_begins.h"
#include "server/job/iteration_history.h"
#include "server/job/job_envpipe.h"
#include "server/job/job_layout.h"
#include "server/job/job_planning.h"
#include "server/job/job_targets.h"
#include "server/job/job_watch.h"
#include "server/job/plan_version.h"
#include "server/job/profiling.h"
#include "server/job/rank_registry.h"
#include "server/job/server_metrics.h"
#include "server/job/usage_count.h"
#include "server/planning/measured_job.h"

namespace lowgear::server {

enum class JobState : unsigned char {
  registering,  ///< until all ranks are there
  baseline,     ///< full clocks, for comparison
  profiling,    ///< clocks are tried out in single iterations
  planning,     ///< until the first plan for training
  running,      ///< a plan is followed, watched and renewed
  observing,    ///< no plan is possible, or the job plans its own steps
  finished,
};
[[nodiscard]] std::string_view name(JobState state);

/// Why jobs are over.
inline constexpr std::string_view kFinishedByRequest = "finished by request";
inline constexpr std::string_view kStartedAgain = "its run was started again";

/// A rank that has been silent this long has no process any more: ranks wait for plans, and ask again after 20 s.
inline constexpr double kLeftS = 30;
/// A job is shown as silent from then on: its ranks would have asked for plans several times.
inline constexpr double kSilentS = 120;

/// A job's state and its reason. Times are seconds since 1970.
struct JobStatus {
  JobState state = JobState::registering;
  std::string reason;  ///< for people
  double created_s = 0;
  double heard_s = 0;    ///< when any rank was heard of last
  double watched_s = 0;  ///< when the server has looked for silence last
  std::optional<double> finished_s;
  bool plan_failed = false;       ///< the job observes because its conditions could not be planned for
  std::optional<double> retry_s;  ///< when profiling or planning that failed is tried again

  /// Whether no rank had been heard of for longer when the server has looked last.
  [[nodiscard]] bool is_silent() const { return watched_s - heard_s >= kSilentS; }
};

/// The data of a job, and its states, each of which alters its own. `Job` alters its record; all others read it.
struct JobRecord {
  /// `servers` is the policy of a job that states none. Throws InputError when the specification has no schedule that
  /// can run.
  JobRecord(std::string job_id, protocol::JobSpec job_spec, double created_s, protocol::JobPolicy servers);

  std::string id;
  protocol::JobSpec spec;
  protocol::JobPolicy policy;  ///< that makes its plans, for its life
  JobLayout layout;
  JobStatus status;
  RankRegistry ranks;
  IterationHistory history;
  IterationBegins begins;
  JobActivity activity;
  UsageCount usage;
  PlanDelivery plans;
  BaselineMeasurement baseline;
  Profiling profiling;
  JobPlanning planning;
  EnvPipeFollowing envpipe;  ///< of a job of that policy
  OrderCheck order;          ///< of a job of that schedule
  JobWatch watch;
  JobTargets targets;
  std::optional<protocol::JobWork> work;  ///< as a rank has reported it last
  std::string invalid;                    ///< why times and energies mean nothing, by a rank; empty: they do

  [[nodiscard]] JobState state() const { return status.state; }
  [[nodiscard]] bool is_over() const { return status.state == JobState::finished; }
  /// The server watches it, and neither profiles nor plans it.
  [[nodiscard]] bool plans_itself() const { return policy == protocol::JobPolicy::steps; }
  /// Of the newest plan; 0: there is none.
  [[nodiscard]] int plan_version() const { return plans.newest_version(); }

  /// The rank has ended: no more of its reports come. Iterations that a rank has not ended as it failed lack its
  /// reports all the same, and do not count.
  void finish_reports(int rank);
  /// Energies of this rank's GPU count once among the job's ranks.
  void count_gpu_once(int rank);
  /// Adds the iteration to the job's usage. Before `collect`: iterations of the baseline are not compared with
  /// it.
  void count_usage(const JobIteration& iteration, double now_s, std::vector<StoredUsage>& rows);
  /// Keeps the iteration, and measures the baseline by it.
  void collect(const JobIteration& iteration);
};

/// Jobs of the same key share profiles. Certain once all ranks are there.
[[nodiscard]] std::string profile_key(const JobRecord& job);
/// Stragglers by the ranks' reports, and those that a user or a controller has named.
[[nodiscard]] SlowRanks slow_ranks(const JobRecord& job);
/// The conditions of a plan that is asked for now.
[[nodiscard]] PlanningConditions planning_conditions(const JobRecord& job);
/// The job's pipelines by this profile, to be planned for.
[[nodiscard]] std::shared_ptr<const PipelineModel> pipeline_model(const JobRecord& job, const MeasuredProfile& profile);

/// The last iterations of a plan for training against the baseline, as shares of it.
struct Comparison {
  double slowdown = 0;
  double slowdown_error = 0;
  std::optional<double> saved;
  double saved_error = 0;
  bool has_baselines_clocks = false;  ///< the plan in effect: only something else than clocks can make a difference
  bool is_uncertain = false;          ///< iterations stalled: their mean time is known to worse than 10 %
  bool is_shared = false;             ///< another job had GPUs of this one, in the baseline or since

  /// Whether iterations by the plan take so much less time than the baseline that something else than clocks has slowed
  /// the baseline: no order of a plan saves a quarter of the time.
  [[nodiscard]] bool has_slow_baseline() const { return slowdown < -0.25 && slowdown < -3 * slowdown_error; }
  /// Whether a difference of energies says what the plan saves.
  [[nodiscard]] bool may_state_saving() const {
    return !has_slow_baseline() && !has_baselines_clocks && !is_uncertain && !is_shared;
  }
};

/// Whether the job has a plan to train by, which its ranks should follow.
[[nodiscard]] bool should_follow_plan(const JobRecord& job);
/// Ranks that could follow plans, and have not followed the one that was due for several iterations; lowest first.
[[nodiscard]] std::vector<int> ranks_not_following(const JobRecord& job);

/// Means of the last iterations of the newest plan; where ranks do not follow it, of the last iterations since it was
/// due. Iterations of a job that plans its own steps stall against their predicted times. None where times mean
/// nothing.
[[nodiscard]] IterationMeans present_means(const JobRecord& job);

/// The measured baseline; null without one, where it is uncertain, and where times and energies mean nothing.
[[nodiscard]] const IterationMeans* stated_baseline(const JobRecord& job);

/// Compares with that baseline only; empty without one. `saved` is empty unless it `may_state_saving`.
[[nodiscard]] std::optional<Comparison> comparison_of(const JobRecord& job);
/// Whether the energy of the iteration, of a plan or a trial, can be compared with that baseline.
[[nodiscard]] bool may_state_saving(const JobRecord& job, const JobIteration& iteration);

}  // namespace lowgear::server
