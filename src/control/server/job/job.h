#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "control/server/job/server_metrics.h"
#include "control/server/parts/baseline.h"
#include "control/server/parts/iteration_history.h"
#include "control/server/parts/job_targets.h"
#include "control/server/parts/plan_delivery.h"
#include "control/server/parts/plan_guard.h"
#include "control/server/parts/profile_watch.h"
#include "control/server/parts/profiling.h"
#include "control/server/parts/rank_registry.h"
#include "control/server/planning/job_schedule.h"
#include "control/server/planning/measured_profile.h"
#include "control/server/planning/planning.h"
#include "control/server/store/store.h"

namespace lowgear {

enum class JobState : unsigned char {
  registering,  ///< until all ranks are there
  baseline,     ///< full clocks, to compare with
  profiling,    ///< clocks are tried out in single iterations
  planning,     ///< no plan for training is there yet
  running,      ///< a plan is followed, watched and renewed
  observing,    ///< there is nothing to plan for, or with
  finished,
};
[[nodiscard]] std::string_view name(JobState state);

/// Where a job is in its life, and why.
struct JobStatus {
  JobState state = JobState::registering;
  std::string reason;  ///< for people
  std::optional<double> finished_s;
  bool plan_failed = false;       ///< the job observes because its conditions could not be planned for
  std::optional<double> retry_s;  ///< when what has failed is tried again
  double retry_after_s = 0;       ///< that planning waited for last
};

/// What the server is asked to plan.
struct PlanningTask {
  enum class Kind : unsigned char { judge_profile, plan };
  Kind kind = Kind::plan;
  std::string job;
  std::uint64_t serial = 0;  ///< of the job's tasks: answers to older ones are out of date
  std::shared_ptr<const PipelineModel> model;
  PlanningConditions conditions;
  std::string reason;
  bool quick_first = false;  ///< a first answer in milliseconds is worth having
};

struct PlanningAnswer {
  std::uint64_t serial = 0;
  std::string reason;
  bool preliminary = false;  ///< a better one follows
  double seconds = 0;        ///< that it took
  std::optional<JobPlan> plan;
  std::optional<ProfileVerdict> verdict;
  std::string error;  ///< why there is neither
};

/// What a call on a job has brought about, for its owner to carry out.
struct JobChanges {
  StoreChange store;
  std::vector<StoredReports> repeated;   ///< had before: to be written only where the store has refused them
  std::vector<JobIteration> iterations;  ///< completed; without reports
  std::vector<Json> decisions;
  bool summary_changed = false;
  std::optional<PlanningTask> planning;
};

/// One training job, as a state machine: what its ranks report, people want and planners answer leads it from one state
/// to the next. What it knows lies in its parts (room `parts`), which return facts; the job decides. Knows no clock, no
/// network and no disk: it is given the time (`now_s`, seconds since 1970) and says what it wants done
/// (`take_changes`). In job_profiling.cpp clocks are tried out, in job_planning.cpp plans are asked for and handed out,
/// in job_watch.cpp iterations are judged; job_restore.cpp stores and restores. job_documents.h shows it.
class Job {
 public:
  /// Profiles by key, of jobs that ran before.
  using Profiles = std::map<std::string, std::shared_ptr<const MeasuredProfile>>;

  /// Throws InputError when the specification has no schedule that can run.
  Job(std::string id, JobSpec spec, double created_s);

  /// As it was stored. `rows` are of this job only. Rows of plans, cells and reports that are damaged are left out, and
  /// `left_out` (may be null) receives which and why. Throws InputError when the rest is no job.
  [[nodiscard]] static std::unique_ptr<Job> restore(const StoredJob& stored, const StoreContents& rows,
                                                    const Profiles& profiles, double now_s,
                                                    std::vector<std::string>* left_out = nullptr);

  // By ranks.
  /// `rank_key` is used when the rank is new. Throws InputError when its place is another rank's.
  [[nodiscard]] RankRegistration register_rank(const RankSpec& rank, std::string rank_key, const Profiles& profiles,
                                               double now_s);
  void report(const RankReports& reports, double now_s);
  /// Throws InputError when the plan version is none that was issued to profile.
  void add_cells(RankCells cells, double now_s);
  void finish_rank(int rank, double now_s);
  /// The answer to a rank that has version `after`; null when there is nothing newer.
  [[nodiscard]] std::shared_ptr<const std::string> plan_after(int rank, int after, double now_s);

  // By people and controllers. Answered with the decision that it leads to; where it is set already, with the one that
  // set it, and then nothing changes.
  std::int64_t set_straggler(int rank, double factor, double now_s);
  std::int64_t set_power_limit(const std::optional<PowerLimit>& limit, double now_s);
  std::int64_t set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct, double now_s);
  /// How much slower a signal allows jobs to be at present.
  void set_signal(double slowdown_pct, std::string_view why, double now_s);
  void finish(std::string_view why, double now_s);
  /// Finishes the job when no rank has been heard of for so long.
  void end_if_silent(double now_s, double silence_s);

  /// A profile of this job's key has been measured by another one.
  void profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s);
  void planned(PlanningAnswer answer, double now_s);

  [[nodiscard]] JobChanges take_changes();
  /// Puts the rows of these ranks into the next changes, and that of the job's state, as they are by then.
  void store_again(const std::set<int>& ranks);
  /// Ranks whose GPU was heard of since the last call; at most kGpuChanges, as no person looks at more.
  [[nodiscard]] std::vector<int> take_gpu_changes();

  [[nodiscard]] const std::string& id() const { return about_.id; }
  [[nodiscard]] const JobSpec& spec() const { return about_.spec; }
  [[nodiscard]] JobState state() const { return status_.state; }
  [[nodiscard]] bool is_over() const { return status_.state == JobState::finished; }
  [[nodiscard]] double created_s() const { return about_.created_s; }
  [[nodiscard]] int plan_version() const { return plans_.newest_version(); }
  [[nodiscard]] std::int64_t last_iteration(int rank) const { return history_.last_iteration(rank); }
  /// Jobs of the same key share profiles. Certain once all ranks are there.
  [[nodiscard]] std::string profile_key() const { return about_.spec.profile_key(ranks_.simulated()); }
  /// What it measured for its profile key, once it has; null before.
  [[nodiscard]] const std::shared_ptr<const MeasuredProfile>& measured() const { return profiling_.own(); }

  // What it consists of, to be shown.
  [[nodiscard]] const JobStatus& status() const { return status_; }
  [[nodiscard]] const RankRegistry& ranks() const { return ranks_; }
  [[nodiscard]] const IterationHistory& history() const { return history_; }
  [[nodiscard]] const JobActivity& activity() const { return activity_; }
  [[nodiscard]] const PlanDelivery& plans() const { return plans_; }
  [[nodiscard]] const std::optional<Baseline>& baseline() const { return baseline_.result(); }
  [[nodiscard]] const JobTargets& targets() const { return targets_; }
  /// By their reports, and as people and controllers say.
  [[nodiscard]] SlowRanks slow_ranks() const;
  /// What plans are chosen from: (time_s, energy_j) of one pipeline.
  [[nodiscard]] const std::vector<std::pair<double, double>>& frontier() const { return planning_.frontier; }

  static constexpr std::size_t kGpuChanges = 64;

 private:
  /// What does not change.
  struct About {
    std::string id;
    JobSpec spec;
    Schedule schedule;
    std::vector<int> rank_of_stage;
    double created_s = 0;
  };
  /// What was heard of the ranks.
  struct Heard {
    double last_s = 0;  ///< of any rank
    std::set<int> gpu_changes;
  };
  struct Planning {
    std::uint64_t serial = 0;  ///< of the newest task
    std::shared_ptr<const PipelineModel> model;
    std::vector<std::pair<double, double>> frontier;
  };
  /// What is to be carried out.
  struct Outbox {
    JobChanges changes;
    std::int64_t decisions = 0;     ///< that were made
    bool state_has_changed = true;  ///< since it was stored
  };

  void begin(const Profiles& profiles, double now_s);
  void take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s);
  void begin_baseline(double now_s);
  void begin_profile(double now_s);
  void begin_trials(double now_s);
  [[nodiscard]] bool issue_trials(const std::vector<int>& clocks_mhz, const std::string& why, double now_s);
  void end_trials(double now_s);
  void watch_trials(const JobIteration& iteration, double now_s);
  [[nodiscard]] int full_clock_mhz() const { return ranks_.common_clocks().front(); }
  [[nodiscard]] PlanVersion uniform_version(PlanPurpose purpose, int clock_mhz) const;
  void issue_uniform(PlanPurpose purpose, int clock_mhz, std::string reason, double now_s);
  [[nodiscard]] std::vector<std::vector<double>> expected_compute_s(int clock_mhz) const;
  void watch_profile(double now_s);
  void watch_baseline(double now_s);
  void go_on_without(const std::vector<int>& missing, double now_s);
  [[nodiscard]] std::vector<int> unmeasured_ranks() const;
  [[nodiscard]] bool stage_is_measured(int pp_rank) const;
  void use_profile(const std::shared_ptr<const MeasuredProfile>& profile);
  void observe(std::string reason, double now_s, std::optional<double> retry_after_s = {});
  void try_again(double now_s);
  void issue(PlanVersion version, double now_s);
  void issue_plan(const PlanningAnswer& answer, double now_s);
  void hold_full_clocks(const std::string& reason, double now_s);
  void take_verdict(const ProfileVerdict& verdict, double now_s);
  void ask(PlanningTask::Kind kind, std::string reason, bool quick_first);
  void replan(const std::string& reason);
  void give_plan_up(const std::string& error, double now_s);
  [[nodiscard]] PlanningConditions conditions() const;
  void collect(const JobIteration& iteration);
  void react(const JobIteration& iteration, double now_s);
  [[nodiscard]] std::vector<RankIteration> measured_ranks(const JobIteration& iteration) const;
  void watch_ranks(const JobIteration& iteration, double now_s);
  void watch_slowdown(const JobIteration& iteration, double now_s);
  void watch_drift(const JobIteration& iteration, double now_s);
  void renew_baseline(int iterations, double now_s);
  void require_own_stages(const RankCells& cells) const;
  std::int64_t carry_out(const JobTargets::Change& change, double now_s);
  std::int64_t decide(std::string_view kind, const std::string& reason, double now_s);
  void change_state(JobState state, std::string reason);
  [[nodiscard]] Json state_json() const;
  [[nodiscard]] StoredJob stored() const;
  void restore_state(const JsonView& state);
  void restore_rank(const StoredRank& row, double now_s);
  void restore_progress(const StoreContents& rows, std::vector<std::string>& left_out);
  void resume(const Profiles& profiles, double now_s);
  void replace_lost_profile(double now_s);
  void store_rank(const RegisteredRank& rank);

  About about_;
  JobStatus status_;
  RankRegistry ranks_;
  Heard heard_;
  IterationHistory history_;
  JobActivity activity_;
  PlanDelivery plans_;
  BaselineMeasurement baseline_;
  Profiling profiling_;
  ProfileWatch watch_;
  PlanGuard guard_;
  JobTargets targets_;
  Planning planning_;
  Outbox outbox_;
};

}  // namespace lowgear
