#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/job_spec.h"
#include "protocol/rank_reports.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "server/job/baseline.h"
#include "server/job/iteration_begins.h"
#include "server/job/iteration_history.h"
#include "server/job/job_targets.h"
#include "server/job/plan_version.h"
#include "server/job/profile_watch.h"
#include "server/job/profiling.h"
#include "server/job/rank_registry.h"
#include "server/job/server_metrics.h"
#include "server/job/usage_count.h"
#include "server/planning/measured_job.h"

namespace lowgear::server {

/// Events of jobs, budgets and agents. Streams of events send them by name.
enum class ServerEvent : unsigned char {
  decision,         ///< about a job; its kind says more
  job_registered,   ///< its first rank has come
  job_ended,        ///< by its ranks or by request
  job_lost,         ///< its ranks are gone and have not ended it
  plans_refused,    ///< a rank follows no plans from now on
  plans_followed,   ///< it follows them again
  budget_exceeded,  ///< no split keeps it
  budget_kept,      ///< a split keeps it again
  agent_silent,     ///< an agent with a share of power is not heard of
  agent_heard,      ///< it is heard of again
  agent_forgotten,  ///< it was silent for long, and its node counts no more
};

/// `job_lost`
[[nodiscard]] std::string_view name(ServerEvent event);

/// An event of the job that it belongs to.
struct JobEvent {
  ServerEvent event = ServerEvent::job_ended;
  std::string reason;
  double time_s = 0;  ///< since 1970
};

/// The progress of a job's policy `envpipe`.
struct EnvPipeFollowing {
  policies::EnvPipeState state;  ///< without clocks: there is no plan yet
  bool is_finished = false;      ///< the reconfiguration has ended
  int version = 0;               ///< of the plan with these clocks; 0: none
  std::uint64_t asked = 0;       ///< serial of the task that decides
  std::string problem = {};      ///< why the last decision failed; empty: it did not
};

enum class JobState : unsigned char {
  registering,  ///< until all ranks are there
  baseline,     ///< full clocks, for comparison
  profiling,    ///< clocks are tried out in single iterations
  planning,     ///< no plan for training is there yet
  running,      ///< a plan is followed, watched and renewed
  observing,    ///< there is nothing to plan for, or with
  finished,
};
[[nodiscard]] std::string_view name(JobState state);

/// Why jobs are over.
inline constexpr std::string_view kFinishedByRequest = "finished by request";
inline constexpr std::string_view kStartedAgain = "its run was started again";

/// A rank that was not heard of for so long has no process any more: ranks wait for plans, and ask again after 20 s.
inline constexpr double kLeftS = 30;

/// A job's state and its reason. Times are seconds since 1970.
struct JobStatus {
  JobState state = JobState::registering;
  std::string reason;  ///< for people
  double created_s = 0;
  double heard_s = 0;  ///< when any rank was heard of last
  std::optional<double> finished_s;
  bool plan_failed = false;       ///< the job observes because its conditions could not be planned for
  std::optional<double> retry_s;  ///< when what has failed is tried again
};

/// The data of a job. `Job` alters its record; all others read it.
struct JobRecord {
  /// `servers` is the policy of a job that states none.
  JobRecord(std::string job_id, protocol::JobSpec job_spec, double created_s, protocol::JobPolicy servers);

  std::string id;
  protocol::JobSpec spec;
  protocol::JobPolicy policy;  ///< that makes its plans, for its life
  JobStatus status;
  RankRegistry ranks;
  IterationHistory history;
  IterationBegins begins;
  JobActivity activity;
  PlanDelivery plans;
  BaselineMeasurement baseline;
  Profiling profiling;
  ProfileWatch watch;
  JobTargets targets;
  UsageCount usage;
  EnvPipeFollowing envpipe;                         ///< of a job of that policy
  std::string order_note;                           ///< the last decision about the order of the schedule `envpipe`
  std::optional<protocol::JobWork> work;            ///< as a rank has reported it last
  std::vector<std::pair<double, double>> frontier;  ///< of one pipeline: (time_s, energy_j)
  workflow::PlannedPower power;                     ///< by the plan that was made last, by this process

  [[nodiscard]] JobState state() const { return status.state; }
  [[nodiscard]] bool is_over() const { return status.state == JobState::finished; }
  /// Of the newest plan; 0: there is none.
  [[nodiscard]] int plan_version() const { return plans.newest_version(); }
};

/// Jobs of the same key share profiles. Certain once all ranks are there.
[[nodiscard]] std::string profile_key(const JobRecord& job);
/// Stragglers by the ranks' reports, and those that a user or a controller has named.
[[nodiscard]] SlowRanks slow_ranks(const JobRecord& job);

/// The last iterations of a plan for training against the baseline, as shares of it.
struct Comparison {
  double slowdown = 0;
  double slowdown_error = 0;
  std::optional<double> saved;
  double saved_error = 0;
};

/// Ranks that could follow plans, and have not followed the one that was due for several iterations; lowest first.
[[nodiscard]] std::vector<int> ranks_not_following(const JobRecord& job);

/// Means of the last iterations of the newest plan; where ranks do not follow it, of the last iterations since it was
/// due.
[[nodiscard]] IterationMeans present_means(const JobRecord& job);

/// Compares with the measured baseline only; empty without one. `saved` is empty where a GPU's energy is also that of
/// another job.
[[nodiscard]] std::optional<Comparison> comparison_of(const JobRecord& job);

}  // namespace lowgear::server
