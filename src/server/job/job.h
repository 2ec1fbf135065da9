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

#include "base/core/backoff.h"
#include "base/core/formats/json.h"
#include "server/job/job_record.h"
#include "server/job/plan_guard.h"
#include "server/job/planning_service.h"
#include "server/planning/planning_inputs.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Effects of a call on a job, for its owner to carry out.
struct JobChanges {
  StoreChange store;
  std::vector<StoredReports> repeated;   ///< had before: to be written only where the store has refused them
  std::vector<JobIteration> iterations;  ///< completed; without reports
  std::vector<Json> decisions;
  std::vector<JobEvent> events;
  std::vector<std::string> warnings;  ///< for the log
  std::vector<int> gpus_heard;        ///< ranks that have reported what their GPU does
  std::vector<int> gpus_taken;        ///< ranks that are new
  std::vector<int> gpus_left;         ///< ranks that need theirs no more
  bool summary_changed = false;
  std::optional<PlanningTask> planning;
};

/// One training job, as a state machine: reports of ranks, requests of users and results of planners move it from state
/// to state. Its data is its record, whose members return facts; the job decides. It has no clock, network
/// or disk: the time is an argument (`now_s`, seconds since 1970), and it returns the actions to carry out
/// (`take_changes`). job_measurements.cpp judges what ranks have measured, job_profiling.cpp tries clocks,
/// job_planning.cpp requests plans and issues them, job_envpipe.cpp follows that policy and compares that order,
/// job_watch.cpp evaluates iterations, job_restore.cpp stores and restores, and job_documents.h shows the job.
class Job {
 public:
  /// Profiles by key, of jobs that ran before.
  using Profiles = std::map<std::string, std::shared_ptr<const MeasuredProfile>>;

  /// `servers` is the policy of a job that states none. Throws InputError when the specification has no schedule that
  /// can run.
  Job(std::string id, protocol::JobSpec spec, double created_s,
      protocol::JobPolicy servers = protocol::JobPolicy::lowgear);

  /// As it was stored. `rows` are of this job only. Rows of plans, cells and reports that are damaged are left out, and
  /// `left_out` (may be null) receives which and why. Throws InputError when the rest is no job.
  [[nodiscard]] static std::unique_ptr<Job> restore(const StoredJob& stored, const StoreContents& rows,
                                                    const Profiles& profiles, double now_s,
                                                    std::vector<std::string>* left_out = nullptr);

  // By ranks.
  /// `rank_key` is used when the rank is new. Throws InputError when its place is another rank's.
  [[nodiscard]] RankRegistration register_rank(const protocol::RankSpec& rank, std::string rank_key,
                                               const Profiles& profiles, double now_s);
  /// `most_w`: the highest power limit of the rank's GPU, where an agent has said it.
  void report(const protocol::RankReports& reports, double now_s, std::optional<double> most_w = std::nullopt);
  /// Throws InputError when the plan version is none that was issued to profile.
  void add_cells(const protocol::RankCells& cells, double now_s);
  /// Those that the rank has reported before are left out.
  void add_decisions(const protocol::RankDecisions& reported, double now_s);
  void finish_rank(int rank, double now_s);
  /// That the GPU of the rank is also that of other jobs from now on; empty: of none.
  void set_shared(int rank, std::optional<SharedGpu> shared, double now_s);
  /// The answer to a rank that has version `after`; null when there is nothing newer.
  [[nodiscard]] std::shared_ptr<const std::string> plan_after(int rank, int after, double now_s);

  // By people and controllers.
  /// Returns the decision that it leads to; where it is set already, the one that set it, and then nothing changes.
  std::int64_t set(const JobTarget& target, double now_s);
  /// How much slower a signal allows jobs to be at present.
  void set_signal(double slowdown_pct, std::string_view why, double now_s);
  /// How much slower than the fastest its plans have to be for power budgets at present.
  void set_budget(double slowdown_pct, std::string_view why, double now_s);
  /// Over for good, as its ranks or a request say.
  void finish(std::string_view why, double now_s) { end(ServerEvent::job_ended, why, now_s); }
  /// Over, as its ranks are gone and have not ended it.
  void lose(std::string_view why, double now_s) { end(ServerEvent::job_lost, why, now_s); }

  /// A profile of this job's key has been measured by another one.
  void profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s);
  void planned(PlanningAnswer answer, double now_s);

  [[nodiscard]] JobChanges take_changes();
  /// Puts the rows of these ranks into the next changes, and that of the job's state, as they are by then.
  void store_again(const std::set<int>& ranks);

  /// What is known of the job, at present.
  [[nodiscard]] const JobRecord& record() const { return record_; }

 private:
  /// From the end of a sweep that led to no profile to the next.
  static constexpr double kProfileRetryS = 3'600;

  /// What its ranks execute.
  struct Layout {
    schedule::Schedule schedule;
    std::vector<int> rank_of_stage;
  };
  struct Planning {
    std::uint64_t serial = 0;  ///< of the newest task
    std::shared_ptr<const PipelineModel> model;
    bool order_is_due = false;           ///< what the profile says of the schedule `envpipe` is not known yet
    std::string note;                    ///< of the plan that was made last
    Backoff<double> backoff{60, 3'600};  ///< seconds, from planning that failed to the next attempt
  };
  /// What is to be carried out.
  struct Outbox {
    JobChanges changes;
    std::int64_t decisions = 0;     ///< that were made
    bool state_has_changed = true;  ///< since it was stored
  };

  [[nodiscard]] TrialSweep& sweep() { return record_.profiling.sweep(); }
  [[nodiscard]] const TrialSweep& sweep() const { return record_.profiling.sweep(); }
  void begin(const Profiles& profiles, double now_s);
  void end(ServerEvent event, std::string_view why, double now_s);
  [[nodiscard]] protocol::RankReports judged(const protocol::RankReports& reports, double now_s);
  [[nodiscard]] protocol::RankCells judged(const protocol::RankCells& cells, double now_s);
  void count_gpu_once(int rank);
  void store_reports(const protocol::RankReports& reports, std::size_t repeated);
  void take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s);
  void begin_baseline(double now_s);
  void begin_profile(double now_s);
  void begin_trials(double now_s);
  [[nodiscard]] bool issue_trials(const std::vector<int>& clocks_mhz, const std::string& why, double now_s);
  void end_trials(double now_s);
  void watch_trials(const JobIteration& iteration, double now_s);
  [[nodiscard]] int full_clock_mhz() const { return record_.ranks.common_clocks().front(); }
  [[nodiscard]] PlanVersion uniform_version(protocol::PlanPurpose purpose, int clock_mhz) const;
  void issue_uniform(protocol::PlanPurpose purpose, int clock_mhz, std::string reason, double now_s);
  [[nodiscard]] std::vector<std::vector<double>> expected_compute_s(int clock_mhz) const;
  void watch_profile(double now_s);
  void watch_baseline(double now_s);
  void drop_unmeasured_ranks(const std::vector<int>& missing, double now_s);
  [[nodiscard]] std::vector<int> unmeasured_ranks() const;
  [[nodiscard]] bool stage_is_measured(int pp_rank) const;
  void use_profile(const std::shared_ptr<const MeasuredProfile>& profile);
  void observe(std::string reason, double now_s, std::optional<double> retry_after_s = {});
  void try_again(double now_s);
  void issue(PlanVersion version, double now_s);
  void issue_plan(const PlanningAnswer& answer, double now_s);
  void hold_full_clocks(const std::string& reason, double now_s);
  void take_verdict(const ProfileVerdict& verdict, double now_s);
  [[nodiscard]] bool may_try_more(double now_s) const;
  void ask(PlanningTask::Kind kind, std::string reason, bool quick_first);
  void replan(const std::string& reason);
  void give_plan_up(const std::string& error, double now_s);
  [[nodiscard]] PlanningConditions conditions() const;
  void take_iterations(double now_s);
  void count(const JobIteration& iteration, double now_s);
  void count_usage(const JobIteration& iteration, double now_s);
  void collect(const JobIteration& iteration);
  void react(const JobIteration& iteration, double now_s);
  [[nodiscard]] std::vector<RankIteration> measured_ranks(const JobIteration& iteration) const;
  void watch_ranks(const JobIteration& iteration, double now_s);
  void watch_slowdown(const JobIteration& iteration, double now_s);
  void watch_drift(const JobIteration& iteration, double now_s);
  void watch_envpipe(const JobIteration& iteration);
  [[nodiscard]] bool take_envpipe(const PlanningAnswer& answer, double now_s);
  void report_assumed_order(double now_s);
  void take_order(const JobOrder& order, double now_s);
  void write_envpipe(Json& state) const;
  void restore_envpipe(const JsonView& state);
  void renew_baseline(int iterations, double now_s);
  void require_own_stages(const protocol::RankCells& cells) const;
  std::int64_t carry_out(const JobTargets::Change& change, double now_s);
  std::int64_t decide(std::string_view kind, const std::string& reason, double now_s);
  [[nodiscard]] Json next_decision(std::string_view kind, const std::string& reason, double time_s) const;
  void keep(Json decision);
  void change_state(JobState state, std::string reason);
  [[nodiscard]] Json state_json() const;
  [[nodiscard]] StoredJob stored() const;
  void restore_state(const JsonView& state);
  void restore_rank(const StoredRank& row, double now_s);
  void collect_restored(double now_s);
  void restore_progress(const StoreContents& rows, double now_s, std::vector<std::string>& left_out);
  void resume(const Profiles& profiles, double now_s);
  void replace_lost_profile(double now_s);
  void store_rank(const RegisteredRank& rank);

  JobRecord record_;
  Layout layout_;
  PlanGuard guard_;
  Planning planning_;
  Outbox outbox_;
};

/// Finishes the job when no rank has been heard of for so long.
void finish_if_silent(Job& job, double now_s, double silence_s);

}  // namespace lowgear::server
