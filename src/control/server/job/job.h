#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "control/server/job/server_metrics.h"
#include "control/server/parts/iteration_log.h"
#include "control/server/parts/plan_version.h"
#include "control/server/parts/rank_registry.h"
#include "control/server/parts/trial_sweep.h"
#include "control/server/planning/job_spec.h"
#include "control/server/planning/planning.h"
#include "control/server/planning/rank_cells.h"
#include "control/server/store/store.h"
#include "planning/adapt/clock_trials.h"
#include "planning/adapt/slowdown_guard.h"
#include "planning/adapt/straggler_detector.h"

namespace lowgear {

enum class JobState : unsigned char {
  registering,  ///< until all ranks are there
  baseline,     ///< full clocks, to compare with
  profiling,    ///< clocks are tried out in single iterations
  planning,     ///< no plan for training is there yet
  running,      ///< a plan is followed, watched and renewed
  observing,    ///< there is nothing to plan for, or with
  finished,
  failed,
};
[[nodiscard]] std::string_view name(JobState state);

/// What iterations at full clocks took, with standard errors of the means.
struct Baseline {
  double time_s = 0;
  double time_error_s = 0;
  double time_spread_s = 0;  ///< standard deviation of single iterations
  std::optional<double> energy_j;
  double energy_error_j = 0;
  int iterations = 0;
};

/// The last iterations of a plan for training against the baseline, as shares of it.
struct Comparison {
  double slowdown = 0;
  std::optional<double> saved;
  double saved_error = 0;
};

/// All ranks take another time than profiled.
struct Drift {
  double factor = 1;
  std::int64_t since_iteration = 0;
};

/// A rank that is slower than its profile.
struct SlowRank {
  double factor = 1;
  std::string cause;  ///< `reported`, or what the detector says
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
  std::vector<JobIteration> iterations;  ///< completed; without reports
  std::vector<Json> decisions;
  bool summary_changed = false;
  std::optional<PlanningTask> planning;
};

/// One training job: who its ranks are, what they have measured, which plan they follow, and why. Knows no clock, no
/// network and no disk: it is given the time (`now_s`, seconds since 1970) and says what it wants done
/// (`take_changes`). In job_profiling.cpp clocks are tried out, in job_planning.cpp plans are asked for and handed out,
/// in job_watch.cpp iterations are judged; job_restore.cpp stores and restores, job_documents.cpp shows.
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
  /// What the store has refused: it goes with the changes that are taken after `retry_refused`, as it is by then. But
  /// for reports: whoever sent them has not had an answer, and sends them again.
  void refused(StoreChange change);
  void retry_refused();
  /// Ranks whose GPU was heard of since the last call; at most kGpuChanges, as no person looks at more.
  [[nodiscard]] std::vector<int> take_gpu_changes();

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const JobSpec& spec() const { return spec_; }
  [[nodiscard]] JobState state() const { return state_; }
  [[nodiscard]] bool is_over() const { return state_ == JobState::finished || state_ == JobState::failed; }
  [[nodiscard]] double created_s() const { return created_s_; }
  [[nodiscard]] std::optional<double> finished_s() const { return finished_s_; }
  [[nodiscard]] int plan_version() const { return versions_.empty() ? 0 : versions_.back()->version; }
  /// Of the newest plan for training; 0: there is none.
  [[nodiscard]] int training_version() const { return training_version_ ? training_version_->version : 0; }
  [[nodiscard]] const RankRegistry& ranks() const { return ranks_; }
  [[nodiscard]] bool has_rank(int rank) const { return ranks_.find(rank) != nullptr; }
  /// Whether the key is the rank's.
  [[nodiscard]] bool owns(int rank, std::string_view key) const { return ranks_.owns(rank, key); }
  [[nodiscard]] std::int64_t last_iteration(int rank) const { return log_.last_iteration(rank); }
  /// Jobs of the same key share profiles. Certain once all ranks are there.
  [[nodiscard]] std::string profile_key() const { return spec_.profile_key(ranks_.simulated()); }
  /// What it measured for its profile key, once it has; null before.
  [[nodiscard]] const std::shared_ptr<const MeasuredProfile>& measured() const { return own_profile_; }

  // Documents of docs/server-api.md.
  [[nodiscard]] Json summary() const;
  [[nodiscard]] Json ranks_json() const;
  [[nodiscard]] Json frontier_json() const;
  [[nodiscard]] Json timeline_json() const;
  [[nodiscard]] Json iterations_json(std::int64_t after, std::size_t limit) const;
  [[nodiscard]] Json iteration_json(const JobIteration& iteration) const;
  [[nodiscard]] Json gpu_json(int rank) const;
  /// For `/metrics`.
  [[nodiscard]] JobSnapshot snapshot() const;

  static constexpr std::size_t kKeptIterations = 2'000;
  static constexpr std::size_t kKeptVersions = 8;
  static constexpr int kReservedVersions = 16;  ///< numbers of plans that are reserved at least
  static constexpr std::size_t kGpuChanges = 64;
  static constexpr std::int64_t kLastingIterations = 50;
  static constexpr std::size_t kRecentIterations = 20;  ///< that present figures are means of

 private:
  /// Means of iterations as they come in.
  struct Sums {
    int count = 0;
    double time_s = 0;
    double time_s2 = 0;
    double energy_j = 0;
    double energy_j2 = 0;
    int with_energy = 0;
    void add(const JobIteration& iteration);
    [[nodiscard]] Baseline baseline() const;
  };
  /// Ranks that have reported an iteration without following the plan that was due in it.
  struct NotFollowing {
    int ranks = 0;
    int first_rank = 0;
  };
  /// Decisions by which people and controllers have set what holds; 0: none.
  struct SetBy {
    std::int64_t power_limit = 0;
    std::int64_t settings = 0;
    std::map<int, std::int64_t> stragglers;  ///< by rank, also of those that are none any more
  };
  struct Recent {
    int iterations = 0;
    double time_s = 0;
    std::optional<double> energy_j;
    double energy_error_j = 0;
  };

  void begin(const Profiles& profiles, double now_s);
  void begin_baseline(double now_s);
  void begin_profile(double now_s);
  void begin_trials(double now_s);
  [[nodiscard]] TrialBudget full_budget() const;
  [[nodiscard]] bool issue_trials(const std::vector<int>& clocks_mhz, const std::string& why, double now_s);
  void end_trials(double now_s);
  void watch_trials(const JobIteration& iteration, double now_s);
  [[nodiscard]] PlanVersion uniform_version(PlanPurpose purpose, int clock_mhz) const;
  void issue_uniform(PlanPurpose purpose, int clock_mhz, std::string reason, double now_s);
  [[nodiscard]] std::vector<std::vector<double>> expected_compute_s(int clock_mhz) const;
  void watch_profile(double now_s);
  void watch_baseline(double now_s);
  void go_on_without(const std::vector<int>& missing, double now_s);
  [[nodiscard]] std::shared_ptr<const MeasuredProfile> merged_profile() const;
  [[nodiscard]] std::vector<int> unmeasured_ranks() const;
  [[nodiscard]] bool stage_is_measured(int pp_rank) const;
  void use_profile(const std::shared_ptr<const MeasuredProfile>& profile);
  void observe(std::string reason, double now_s, std::optional<double> retry_after_s = {});
  void try_again(double now_s);
  [[nodiscard]] int take_version();
  void issue(PlanVersion version, double now_s);
  void issue_plan(const PlanningAnswer& answer, double now_s);
  void hold_full_clocks(const std::string& reason, double now_s);
  void take_verdict(const ProfileVerdict& verdict, double now_s);
  void ask(PlanningTask::Kind kind, std::string reason, bool quick_first);
  void replan(const std::string& reason);
  void give_plan_up(const std::string& error, double now_s);
  void guard_plans(std::vector<double> planned_times_s);
  [[nodiscard]] PlanningConditions conditions() const;
  void collect(const JobIteration& iteration);
  [[nodiscard]] bool counts_for_baseline(const JobIteration& iteration) const;
  void note_followers(const JobIteration& iteration);
  void react(const JobIteration& iteration, double now_s);
  [[nodiscard]] StragglerDetector& detector();
  void watch_ranks(const JobIteration& iteration, double now_s);
  void watch_slowdown(const JobIteration& iteration, double now_s);
  void watch_drift(const JobIteration& iteration, double now_s);
  void renew_baseline(int iterations, double now_s);
  void require_own_stages(const RankCells& cells) const;
  [[nodiscard]] std::int64_t next_boundary(double now_s) const;
  [[nodiscard]] Recent recent() const;
  [[nodiscard]] std::optional<Comparison> comparison() const;
  [[nodiscard]] std::string reason() const;
  /// How much longer than the baseline the job may take.
  [[nodiscard]] double guard_limit_pct() const { return guard_pct_ + std::max(slowdown_pct_, signal_slowdown_pct_); }
  /// Whether the guard counts by what is wanted now; otherwise the next plan is given a new one, or none under a cap.
  [[nodiscard]] bool guard_holds() const { return guard_ && !power_limit_ && guard_->limit_pct() == guard_limit_pct(); }
  [[nodiscard]] const PlanVersion* version(int number) const;
  [[nodiscard]] std::map<int, SlowRank> slow_ranks() const;
  /// Whether a rank is already known to be so much slower, or with 1 not to be slow.
  [[nodiscard]] bool is_known(int rank, double factor) const;
  [[nodiscard]] static std::vector<double> guard_times(const JobPlan& plan);
  std::int64_t decide(std::string_view kind, const std::string& reason, double now_s);
  void change_state(JobState state, std::string reason);
  [[nodiscard]] Json state_json() const;
  [[nodiscard]] StoredJob stored() const;
  [[nodiscard]] Json set_by_json() const;
  void restore_state(const JsonView& state);
  void restore_set_by(const JsonView& set_by);
  void restore_sweep(const JsonView& state);
  void restore_rank(const StoredRank& row, double now_s);
  void restore_progress(const StoreContents& rows, std::vector<std::string>& left_out);
  void resume(const Profiles& profiles, double now_s);
  void replace_lost_profile(double now_s);
  void store_rank(const RegisteredRank& rank);

  std::string id_;
  JobSpec spec_;
  Schedule schedule_;
  std::vector<int> rank_of_stage_;
  double created_s_;
  std::optional<double> finished_s_;
  JobState state_ = JobState::registering;
  std::string reason_;  ///< of the state, for people

  RankRegistry ranks_;
  double heard_s_;  ///< when any rank was heard of last
  IterationLog log_;
  std::deque<JobIteration> history_;  ///< without the ranks' reports
  double latest_s_ = 0;               ///< when the newest iteration was reported
  NotFollowing not_following_;        ///< in the newest iteration

  std::deque<std::shared_ptr<const PlanVersion>> versions_;  ///< the last ones, newest last
  std::optional<RankPlanTexts> texts_;                       ///< of the newest version
  std::optional<std::int64_t> late_boundary_;                ///< where ranks begin that have missed the version's own
  int last_version_ = 0;      ///< number that a plan may have had at most, of a server that was killed, too
  int reserved_version_ = 0;  ///< up to which a server that starts anew uses none
  int baseline_version_ = 0;
  double baseline_begun_s_ = 0;
  Sums baseline_sums_;
  std::optional<Baseline> baseline_;

  TrialSweep sweep_;
  TrialBudget budget_;
  bool judging_ = false;                                  ///< whether what the sweep has measured is enough
  std::optional<double> profiled_s_;                      ///< when the last profile was begun
  std::optional<Drift> drift_;                            ///< from the profile in use
  std::int64_t lasting_iterations_ = kLastingIterations;  ///< after which a drift leads to a profile within the hour
  std::shared_ptr<const MeasuredProfile> own_profile_;
  std::shared_ptr<const PipelineModel> model_;

  std::map<int, SlowRank> reported_slow_;  ///< by rank, as people and controllers say
  std::map<int, SlowRank> detected_slow_;  ///< by rank, as its reports show
  std::optional<PowerLimit> power_limit_;
  double slowdown_pct_;
  double guard_pct_;
  double signal_slowdown_pct_ = 0;
  SetBy set_by_;
  std::optional<StragglerDetector> detector_;
  std::optional<SlowdownGuard> guard_;
  double full_clock_scale_ = 1;

  std::uint64_t planning_serial_ = 0;
  bool plan_failed_ = false;       ///< the job observes because its conditions could not be planned for
  std::optional<double> retry_s_;  ///< when what has failed is tried again
  double retry_after_s_ = 0;       ///< that planning waited for last
  std::vector<std::pair<double, double>> frontier_;
  std::shared_ptr<const PlanVersion> training_version_;  ///< newest for training
  int first_training_version_ = 0;
  bool is_capped_ = false;  ///< the newest plan for training was made to keep a power cap
  JobActivity activity_;
  std::int64_t decisions_ = 0;
  JobChanges changes_;
  StoreChange refused_;
  bool state_refused_ = false;
  std::set<int> unstored_;  ///< ranks whose reports were refused
  std::set<int> gpu_changes_;
  bool store_state_ = true;  ///< it has changed since it was stored
};

}  // namespace lowgear
