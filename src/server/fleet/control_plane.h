#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/core/formats/json.h"
#include "server/fleet/finished_job.h"
#include "server/fleet/power_budgets.h"
#include "server/fleet/refusal.h"
#include "server/fleet/signals.h"
#include "server/fleet/store_writes.h"
#include "server/fleet/waits.h"
#include "server/job/job.h"
#include "server/job/rank_registry.h"
#include "server/job/server_metrics.h"
#include "server/planning/planning_service.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Sends events of jobs to watchers.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// To all who watch this job; to those who watch all jobs where `job` is empty.
  virtual void send(std::string_view event, const std::string& job, const Json& data) = 0;
  /// To be called some times a second.
  virtual void flush() = 0;
  /// Nothing more will be sent.
  virtual void end_streams() = 0;
  [[nodiscard]] virtual bool has_listeners() const = 0;
};

/// A job counts until it is over and archived.
struct ControlPlaneLimits {
  std::size_t jobs = 1'000;
  std::size_t kept_jobs = 200;        ///< that are over and archived, for people who look back
  int ranks = 100'000;                ///< of all jobs
  std::size_t job_units = 1'000'000;  ///< forwards and backwards of an iteration of one job
  std::size_t units = 10'000'000;     ///< of all jobs
  double node_w = 12'000;             ///< largest sum of the power limits of a node's GPUs
  double silence_s = 1'800;           ///< a job whose ranks have all been silent this long is over
};

/// The services that the control plane uses.
struct ControlPlaneEnvironment {
  Store* store = nullptr;
  PlanningService* planning = nullptr;
  EventSink* events = nullptr;                ///< receives events of jobs
  Activity* activity = nullptr;               ///< counts them
  std::function<double()> now_s;              ///< seconds since 1970, which never jump
  std::function<double()> calendar_s;         ///< the same by the system's clock, for timetables; empty: now_s
  std::function<std::string()> new_key;       ///< 128 random bits as text
  std::function<void(std::string_view)> log;  ///< receives messages for an operator; may be empty
  protocol::JobPolicy policy = protocol::JobPolicy::lowgear;  ///< of jobs that state none
};

/// The error for requests that change a finished job.
[[nodiscard]] Refused job_is_over();

/// All jobs and their shared state: profiles, signals, ranks that wait for plans, and watchers. Jobs are changed only
/// through `change`, which carries out the effects. Runs on one thread.
class ControlPlane {
 public:
  ControlPlane(ControlPlaneEnvironment environment, ControlPlaneLimits limits);

  /// Continues the jobs of the store.
  void restore(StoreContents contents);

  /// The job; throws Refused where there is none, or it is over and archived.
  [[nodiscard]] const JobRecord& job(std::string_view id) const;
  /// The job when it is over and archived; null when it is not. Throws Refused where there is none.
  [[nodiscard]] const FinishedJob* finished_job(std::string_view id) const;
  /// Whether its run was started again: ranks that are left of it have to register again.
  [[nodiscard]] bool has_another_job(const FinishedJob& over) const;
  /// Of all jobs, newest first.
  [[nodiscard]] std::vector<Json> summaries() const;

  struct Registered {
    const JobRecord* job = nullptr;         ///< null: it is over and archived
    const FinishedJob* finished = nullptr;  ///< instead
    bool created = false;
  };
  /// What `reply` makes of a job that is not over is called once the job is on disk, or is not; it may be empty. A run
  /// whose ranks have all ended, or are gone, begins another job, unless `instance`, the process that asks, is one of
  /// them: it has been cut off for a while. Throws Refused where the run is known with another specification, the job
  /// is too large, or there is no room, and InputError.
  Registered register_job(const protocol::JobSpec& spec,
                          const std::function<OnCommitted(const Registered&)>& reply = {},
                          std::string_view instance = {});
  /// Likewise. Throws Refused where the job is over and the rank is new, and InputError.
  RankRegistration register_rank(const JobRecord& job, const protocol::RankSpec& rank,
                                 const std::function<OnCommitted(const RankRegistration&)>& reply = {});
  /// Changes a job: calls `alter` with it at once, and carries out the effects. If `alter` returns an `OnCommitted`, it
  /// is called when everything that was to be written of the job until then is on disk, or cannot be written. An
  /// exception of `alter` is passed on; its changes until then are carried out with the next change.
  template <typename Alter>
  void change(const JobRecord& job, Alter alter) {
    Job& altered = *entry(job.id).job;
    if constexpr (std::is_void_v<std::invoke_result_t<Alter&, Job&>>) {
      alter(altered);
      carry_out(altered, {});
    } else {
      carry_out(altered, alter(altered));
    }
  }

  /// Time series that all jobs follow.
  [[nodiscard]] Signals& signals() { return signals_; }
  /// Limits of power that jobs keep together.
  [[nodiscard]] PowerBudgets& budgets() { return budgets_; }

  /// Of jobs that were profiled, by `JobSpec::profile_key`.
  [[nodiscard]] const MeasuredProfiles& profiles() const { return profiles_; }

  /// Gives the rank a plan newer than `after` once there is one, or none after `wait_s`.
  void wait_for_plan(const JobRecord& job, int rank, int after, double wait_s, Pending<PlanText> pending);
  /// Responds with 204, later, to a rank that does not know yet that its job is finished, because it would ask again at
  /// once.
  void let_wait(double wait_s, Pending<PlanText> pending);
  /// To read stored rows of jobs, and the store's health: while it is `disk_full`, new jobs are refused.
  [[nodiscard]] const WatchedStore& store() const { return store_; }
  /// What `/metrics` shows of jobs; the rest of it is left to the caller.
  [[nodiscard]] Snapshot snapshot() const;

  /// To be called about ten times a second: ends waits, follows signals and budgets, writes refused rows again,
  /// sends events.
  void tick();
  /// Responds to all waiting ranks; nothing new may begin.
  void drain();

  [[nodiscard]] bool draining() const { return draining_; }
  [[nodiscard]] double now_s() const { return environment_.now_s(); }

 private:
  [[nodiscard]] double calendar_s() const { return environment_.calendar_s ? environment_.calendar_s() : now_s(); }
  struct Entry {
    std::unique_ptr<Job> job;
    int committed_version = 0;  ///< newest plan whose outcome is known: only that one is handed out
    JobWrites writes;
    PlanWaits waits;
    bool is_planned_for = true;  ///< until it is over
    bool is_archiving = false;   ///< the archive was given to the store
    bool is_archived = false;    ///< and is on disk
    bool summary_due = false;
    double summary_s = 0;       ///< when one was sent last
    std::set<int> gpu_changes;  ///< ranks whose GPU was heard of since then
  };

  [[nodiscard]] Entry& entry(const std::string& id) { return *entries_.at(id); }
  void restore_finished(StoreContents& contents);
  void note_run(const std::string& run, const std::string& id, double created_s);
  [[nodiscard]] double created_s(const std::string& id) const;
  [[nodiscard]] bool is_left(const std::string& id, std::string_view instance) const;
  [[nodiscard]] Registered find_job(const protocol::JobSpec& spec, std::string_view instance);
  [[nodiscard]] Registered find_or_create(const protocol::JobSpec& spec, std::string_view instance);
  void require_room(const protocol::JobSpec& spec) const;
  /// Carries out what alterations of the job have brought about.
  void carry_out(Job& job, OnCommitted on_committed);
  void write(const JobRecord& job, StoreChange change, OnCommitted on_committed);
  void retire(const std::string& id, bool is_archive, StoreOutcome outcome);
  void hand_out(Entry& entry, int version);
  [[nodiscard]] bool answer(Entry& entry, const PlanWait& wait) const;
  void publish(Entry& entry, const JobChanges& changes);
  void send_events(Entry& entry, double now_s);
  void send_event(const JobRecord& job, const JobEvent& event);
  void submit(PlanningTask task);
  void share_profile(const JobRecord& job);
  void follow_signals();
  void follow_budgets();
  void take_gpus(const JobRecord& job);
  void follow_gpus();
  void forget_old_jobs();
  void log(std::string_view text) const;

  ControlPlaneEnvironment environment_;
  ControlPlaneLimits limits_;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries_;
  FinishedJobs finished_;
  PlanWaits late_;  ///< of jobs that are over
  std::unordered_map<std::string, std::string> job_of_run_;
  MeasuredProfiles profiles_;
  WatchedStore store_;
  Signals signals_;
  PowerBudgets budgets_;
  GpuUses gpus_;
  double gpus_followed_s_ = 0;
  bool draining_ = false;
};

}  // namespace lowgear::server
