#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/job_spec.h"
#include "protocol/rank_decisions.h"
#include "server/job/envpipe_following.h"
#include "server/job/iteration_begins.h"
#include "server/job/server_metrics.h"
#include "server/parts/baseline.h"
#include "server/parts/iteration_history.h"
#include "server/parts/job_targets.h"
#include "server/parts/plan_delivery.h"
#include "server/parts/profile_watch.h"
#include "server/parts/profiling.h"
#include "server/parts/rank_registry.h"
#include "server/parts/usage_count.h"
#include "server/planning/measured_job.h"

namespace lowgear::server {

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

/// Where a job is in its life, and why. Times are seconds since 1970.
struct JobStatus {
  JobState state = JobState::registering;
  std::string reason;  ///< for people
  double created_s = 0;
  double heard_s = 0;  ///< when any rank was heard of last
  std::optional<double> finished_s;
  bool plan_failed = false;       ///< the job observes because its conditions could not be planned for
  std::optional<double> retry_s;  ///< when what has failed is tried again
};

/// What is known of a job. `Job` alters its record; all others read it.
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
  std::string order_note;                           ///< what was decided last about the order of the schedule `envpipe`
  std::optional<protocol::JobWork> work;            ///< as a rank has reported it last
  std::vector<std::pair<double, double>> frontier;  ///< what plans are chosen from: (time_s, energy_j) of one pipeline
  workflow::PlannedPower power;                     ///< by the plan that was made last, by this process

  [[nodiscard]] JobState state() const { return status.state; }
  [[nodiscard]] bool is_over() const { return status.state == JobState::finished; }
  /// Of the newest plan; 0: there is none.
  [[nodiscard]] int plan_version() const { return plans.newest_version(); }
};

/// Jobs of the same key share profiles. Certain once all ranks are there.
[[nodiscard]] std::string profile_key(const JobRecord& job);
/// By their reports, and as people and controllers say.
[[nodiscard]] SlowRanks slow_ranks(const JobRecord& job);

}  // namespace lowgear::server
