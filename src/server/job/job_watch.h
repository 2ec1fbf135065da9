#pragma once

#include <string>

#include "server/job/iteration_log.h"
#include "server/job/job_outbox.h"
#include "server/job/job_step.h"
#include "server/job/plan_guard.h"
#include "server/job/plan_version.h"
#include "server/job/profile_watch.h"
#include "server/job/rank_registry.h"
#include "server/job/server_metrics.h"

namespace lowgear::server {

/// Watches the iterations of a job that follows a plan: its ranks against their profile, and the job against the
/// slowdown that it may have.
class JobWatch {
 public:
  explicit JobWatch(int ranks) : profile_(ranks) {}

  [[nodiscard]] ProfileWatch& profile() { return profile_; }
  [[nodiscard]] const ProfileWatch& profile() const { return profile_; }
  [[nodiscard]] PlanGuard& guard() { return guard_; }
  [[nodiscard]] const PlanGuard& guard() const { return guard_; }

  /// Looks for slow ranks. Plans older than `first_version` expect times of a profile that was replaced. Once changes
  /// of ranks have left the plan as it is a few times, they are no decisions until it changes.
  [[nodiscard]] JobStep watch_ranks(const JobIteration& iteration, const PlanDelivery& plans, const RankRegistry& ranks,
                                    int first_version, JobOutbox& outbox, double now_s);
  /// Whether the profile is outdated.
  [[nodiscard]] JobStep watch_drift(const JobIteration& iteration, JobOutbox& outbox, double now_s);
  /// Whether the plan costs too much time. Counts what the guard decides.
  [[nodiscard]] JobStep watch_slowdown(const JobIteration& iteration, const PlanDelivery& plans, JobActivity& activity,
                                       JobOutbox& outbox, double now_s);

  /// A plan was made for this reason; `is_new`: it has other clocks than the present one. Returns whether that is a
  /// decision.
  bool take_plan(const std::string& reason, bool is_new);

 private:
  ProfileWatch profile_;
  PlanGuard guard_;
  std::string asked_for_;  ///< reason of the last plan that `watch_ranks` has asked for
  int unchanged_ = 0;      ///< plans in a row that it has asked for, and that were the present one
};

}  // namespace lowgear::server
