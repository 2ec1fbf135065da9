#include "server/fleet/staggered_job.h"

#include <algorithm>
#include <vector>

namespace lowgear::server {
namespace {

/// Mean of the last iterations under the plan; 0: there is none.
double present_time_s(const JobRecord& job, int plan_version) {
  double sum_s = 0;
  const std::vector<JobIteration> recent = job.history.recent(plan_version);
  for (const JobIteration& iteration : recent) sum_s += iteration.time_s;
  return recent.empty() ? 0 : sum_s / static_cast<double>(recent.size());
}

/// Iterations may take so much longer than the baseline as the job's settings and its guard allow.
double most_delay_s(const JobRecord& job, double time_s) {
  if (!job.baseline.result() || !(time_s > 0)) return 0;
  const double longest_s = job.baseline.result()->time_s * (1 + job.targets.guard_limit_pct() / 100);
  return std::clamp(kSlackShare * (longest_s - time_s), 0.0, kMostDelayShare * time_s);
}

}  // namespace

std::optional<StaggeredJob> staggered_job(const JobRecord& job, double share) {
  const PlanVersion* training = job.plans.training();
  const bool follows = job.state() == JobState::running && training != nullptr && training == job.plans.newest();
  if (!follows || share == 0 || !(job.power.cycle.time_s > 0)) return std::nullopt;
  const double time_s = present_time_s(job, training->version);
  StaggeredJob staggered{.id = job.id,
                         .plan_version = training->version,
                         .cycle = extended(job.power.cycle, time_s, job.power.waiting_w),
                         .waiting_w = job.power.waiting_w * share,
                         .pace = job.begins.pace(training->version),
                         .most_delay_s = most_delay_s(job, time_s)};
  if (staggered.pace && staggered.pace->cannot_wait) {
    staggered.most_delay_s = 0;
    staggered.not_delayed =
        "its program lets no iteration be delayed: it has to call lowgear_stagger before each (docs/client.md)";
  } else if (!job.baseline.result()) {
    staggered.not_delayed = "its baseline is not measured, so that what it may lose is not known";
  } else if (!(staggered.most_delay_s > 0)) {
    staggered.not_delayed = "its iterations take as long as its guard and settings allow";
  }
  for (double& power_w : staggered.cycle.power_w) power_w *= share;
  return staggered;
}

workflow::JobCycle cycle_of(const StaggeredJob& job, double period_s) {
  workflow::JobCycle cycle = extended(job.cycle, period_s, job.waiting_w);
  cycle.time_s = period_s;  // iterations that reports say to be a little longer than from begin to begin
  return cycle;
}

}  // namespace lowgear::server
