#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/rank_reports.h"
#include "server/job/iteration_log.h"
#include "server/job/plan_version.h"
#include "server/planning/planning_service.h"
#include "server/store/store.h"

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

/// Collects the effects of calls on a job until its owner takes them, and numbers its decisions.
class JobOutbox {
 public:
  explicit JobOutbox(std::string job);
  /// Continues after the last decision of a stored job, whose state is stored already.
  void restore(std::int64_t decisions, int plan_version);

  /// Returns the number of the decision.
  std::int64_t decide(std::string_view kind, const std::string& reason, double now_s);
  /// A decision of the training program, by one of its ranks.
  void add_training_decision(int rank, const protocol::TrainingDecision& made, double time_s);
  /// Number of decisions so far.
  [[nodiscard]] std::int64_t decisions() const { return decisions_; }
  /// The ranks follow this plan. Decisions name its version from now on.
  void issue(const PlanVersion& plan, double now_s);
  void send(ServerEvent event, std::string reason, double now_s);
  /// The job's row has to be stored again.
  void change_state() { state_has_changed_ = true; }
  void change_summary() { changes_.summary_changed = true; }

  /// For rows and other effects without a rule of their own.
  [[nodiscard]] JobChanges& changes() { return changes_; }
  /// Whether the job's row has to be stored; asks once.
  [[nodiscard]] bool take_state_change();
  [[nodiscard]] JobChanges take();

 private:
  [[nodiscard]] Json next_decision(std::string_view kind, const std::string& reason, double time_s) const;
  void keep(Json decision);

  std::string job_;
  JobChanges changes_;
  std::int64_t decisions_ = 0;
  int plan_version_ = 0;  ///< 0: no plan was issued
  bool state_has_changed_ = true;
};

}  // namespace lowgear::server
