#pragma once

#include <memory>
#include <string>

#include "server/job/job_outbox.h"
#include "server/job/job_record.h"
#include "server/job/job_step.h"

namespace lowgear::server {

/// Moves a job from state to state at one time: carries out the steps that its states ask for. Lives for one call of
/// `Job`.
class JobTransitions {
 public:
  JobTransitions(JobRecord& job, JobOutbox& outbox, double now_s) : job_(job), outbox_(outbox), now_s_(now_s) {}

  /// All ranks are there.
  void begin(const MeasuredProfiles& profiles);
  /// Continues the job after a restart of the server.
  void resume(const MeasuredProfiles& profiles);
  /// An iteration was counted.
  void take(const JobIteration& iteration);
  /// Ranks have reported: ends waits for ranks that never follow or post, and retries profiling and planning that
  /// failed.
  void watch();
  /// Fewer ranks are waited for.
  void end_trials();
  /// Times and energies mean something from now on: replaces a baseline and a profile of when they did not.
  void measure_again();
  /// No rank follows plans any more.
  void lose_followers(const std::string& reason);
  /// Another job has measured a profile of this job's key.
  void take(const std::shared_ptr<const MeasuredProfile>& profile);
  void take(const PlanningAnswer& answer);
  /// The conditions of planning have changed.
  void replan(const std::string& reason);
  void enter(JobState state, std::string reason);

 private:
  void carry_out(JobStep step);
  void observe(std::string reason, std::optional<double> retry_after_s = {});
  void measure_baseline();
  void measure_profile();
  void use(const MeasuredProfile& profile);
  void refuse_profile(const std::string& reason);
  void issue(PlanVersion plan);
  void hold_full_clocks(const std::string& reason);
  void issue_full_clocks(const std::string& reason);
  void ask(PlanningTask::Kind kind, std::string reason, bool quick_first);
  void ask_envpipe(const JobIteration& iteration);
  void follow_plan(const PlanningAnswer& answer);
  void give_plan_up(const std::string& error);
  void renew_baseline(int iterations);
  void replace_lost_profile();
  [[nodiscard]] ProfiledJob profiled() const;

  JobRecord& job_;
  JobOutbox& outbox_;
  double now_s_;
};

}  // namespace lowgear::server
