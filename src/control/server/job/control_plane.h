#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/http/message/error.h"
#include "base/http/server/reply.h"
#include "control/server/job/event_hub.h"
#include "control/server/job/finished_job.h"
#include "control/server/job/job.h"
#include "control/server/job/planning_service.h"
#include "control/server/job/server_metrics.h"
#include "control/server/store/store.h"
#include "planning/adapt/signal_policy.h"

namespace lowgear {

/// A job counts until it is over and archived.
struct ControlPlaneLimits {
  std::size_t jobs = 1'000;
  std::size_t kept_jobs = 200;        ///< that are over and archived, for people who look back
  int ranks = 100'000;                ///< of all jobs
  std::size_t job_units = 1'000'000;  ///< forwards and backwards of an iteration of one job
  std::size_t units = 10'000'000;     ///< of all jobs
  double silence_s = 1'800;           ///< after which a job that no rank is heard of is over
};

/// What the control plane is given.
struct ControlPlaneEnvironment {
  Store* store = nullptr;
  PlanningService* planning = nullptr;
  std::function<double()> now_s;              ///< seconds since 1970
  std::function<std::string()> new_key;       ///< 128 random bits as text
  std::function<void(std::string_view)> log;  ///< what an operator should know; may be empty
};

/// A time series that allows jobs to be slower while it is high.
struct Signal {
  std::string document;  ///< as it was put
  SignalPolicy policy;
  SignalState state;
};

/// Called once what was asked for is on disk, or is not.
using Settled = std::function<void(StoreOutcome)>;

/// The answer to whoever wants something of a job that is over.
[[nodiscard]] HttpError job_is_over();

/// All jobs, and what connects them: profiles, signals, those who wait for plans and those who watch. Runs on one
/// thread.
class ControlPlane {
 public:
  ControlPlane(ControlPlaneEnvironment environment, ControlPlaneLimits limits);

  /// Continues jobs where they were, as the store holds them.
  void restore(StoreContents contents);

  /// The job; throws HttpError 404 when there is none, and 409 when it is over and archived.
  [[nodiscard]] Job& job(std::string_view id);
  /// The job when it is over and archived; null when it is not. Throws HttpError 404 when there is none.
  [[nodiscard]] const FinishedJob* finished_job(std::string_view id) const;
  /// Of all jobs, newest first.
  [[nodiscard]] std::vector<Json> summaries() const;

  struct Registered {
    Job* job = nullptr;                     ///< null: it is over and archived
    const FinishedJob* finished = nullptr;  ///< instead
    bool created = false;
  };
  /// Throws HttpError 409 when the run is known with another specification, 413 when the job is too large, 503 when
  /// there is no room, and InputError.
  [[nodiscard]] Registered register_job(const JobSpec& spec);
  [[nodiscard]] RankRegistration register_rank(Job& job, const RankSpec& rank);
  /// Jobs follow the signal once it is on disk. Throws InputError.
  void put_signal(const std::string& name, const JsonView& body, Settled settled);
  /// Jobs follow it no more once that is on disk. Throws HttpError 404 when there is no such signal.
  void remove_signal(const std::string& name, Settled settled);
  [[nodiscard]] Json signals_json() const;

  /// Carries out what calls on the job have brought about. To be called after each of them.
  void settle(Job& job, Settled settled = {});

  /// Answers once the rank has a plan newer than `after`, or after `wait_s` with 204.
  void wait_for_plan(Job& job, int rank, int after, double wait_s, std::shared_ptr<HttpReply> reply);
  /// Answers a rank that does not know yet that its job is over with 204, later: it asks again at once.
  void let_wait(double wait_s, std::shared_ptr<HttpReply> reply);
  void read_decisions(const std::string& job, std::int64_t after, int limit,
                      std::function<void(std::vector<StoredDecision>)> done) const;
  void read_archive(const FinishedJob& job, std::function<void(std::optional<StoredArchive>)> done) const;
  [[nodiscard]] EventHub& events() { return events_; }
  [[nodiscard]] ServerActivity& activity() { return activity_; }
  /// What `/metrics` shows of jobs; the rest of it is left to the caller.
  [[nodiscard]] ServerSnapshot snapshot() const;

  /// To be called about ten times a second: ends waits, follows signals, writes again what the store has refused, sends
  /// events.
  void tick();
  /// Answers all who wait; nothing new is to begin.
  void drain();

  /// What came of the last change; while it was `disk_full`, new jobs are refused.
  [[nodiscard]] StoreOutcome store_health() const { return store_health_; }
  [[nodiscard]] bool draining() const { return draining_; }
  [[nodiscard]] double now_s() const { return environment_.now_s(); }

 private:
  struct Waiter {
    int rank = 0;
    int after = 0;
    double until_s = 0;
    std::shared_ptr<HttpReply> reply;
  };
  /// A request that changes nothing, as an earlier one has said the same. Its answer is what comes of that one.
  struct Repeated {
    std::uint64_t writes = 0;
    std::uint64_t refusals = 0;
    Settled settled;
  };
  struct Entry {
    std::unique_ptr<Job> job;
    int committed_version = 0;      ///< newest plan that is on disk: only that one is handed out
    std::uint64_t writes = 0;       ///< changes that the store was given
    std::uint64_t answers = 0;      ///< and those of them whose outcome is known
    std::uint64_t refusals = 0;     ///< and those of them that it has refused
    std::deque<Repeated> repeated;  ///< in the order in which they came
    double retry_s = 0;             ///< when what was refused is written again, whoever asks
    double retry_period_s = 0;
    std::vector<Waiter> waiters;
    bool is_planned_for = true;  ///< until it is over
    bool is_archiving = false;   ///< the archive was given to the store
    bool is_archived = false;    ///< and is on disk
    bool summary_due = false;
    double summary_s = 0;  ///< when one was sent last
  };

  [[nodiscard]] Entry& entry(const Job& job) { return *entries_.at(job.id()); }
  void restore_finished(StoreContents& contents);
  void note_run(const std::string& run, const std::string& id, double created_s);
  [[nodiscard]] double created_s(const std::string& id) const;
  void require_room(const JobSpec& spec) const;
  void write(Job& job, StoreChange change, Settled settled);
  void give_store(StoreChange change, Settled done);
  void retire(const std::string& id, bool is_archive, StoreOutcome outcome);
  void written(Entry& entry, int version, const StoreChange& change, StoreOutcome outcome);
  void note_store(StoreOutcome outcome);
  void probe_store();
  void answer_waiters(Entry& entry);
  [[nodiscard]] bool answer(Entry& entry, const Waiter& waiter) const;
  void publish(Job& job, const JobChanges& changes);
  void submit(PlanningTask task);
  void share_profile(const Job& job);
  void follow_signals();
  void write_signals(StoreChange change, std::function<void()> committed, Settled settled);
  void forget_old_jobs();
  void log(std::string_view text) const;

  ControlPlaneEnvironment environment_;
  ControlPlaneLimits limits_;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries_;
  std::map<std::string, FinishedJob, std::less<>> finished_;
  std::vector<Waiter> late_;  ///< of jobs that are over
  std::unordered_map<std::string, std::string> job_of_run_;
  Job::Profiles profiles_;
  std::map<std::string, Signal> signals_;
  EventHub events_;
  ServerActivity activity_;
  StoreOutcome store_health_ = StoreOutcome::committed;
  std::uint64_t writes_under_way_ = 0;
  double probe_s_ = 0;  ///< when the store is written to only to learn how it is, while it is not well
  double probe_period_s_ = 0;
  bool draining_ = false;
};

}  // namespace lowgear
