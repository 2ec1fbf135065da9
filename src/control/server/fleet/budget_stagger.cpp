#include "control/server/fleet/budget_stagger.h"

#include <cstddef>
#include <utility>

namespace lowgear::server {
namespace {

/// Mean of the last iterations under the plan; 0: there is none.
double present_time_s(const JobRecord& job, int plan_version) {
  double sum_s = 0;
  const std::vector<JobIteration> recent = job.history.recent(plan_version);
  for (const JobIteration& iteration : recent) sum_s += iteration.time_s;
  return recent.empty() ? 0 : sum_s / static_cast<double>(recent.size());
}

Json range_json(const budget::PowerRange& range) {
  return {{"peak_w", range.peak_w}, {"least_w", range.least_w}, {"swing_w", range.swing_w()}};
}

}  // namespace

std::optional<budget::JobCycle> present_cycle(const JobRecord& job) {
  const PlanVersion* training = job.plans.training();
  const bool follows = job.state() == JobState::running && training != nullptr && training == job.plans.newest();
  if (!follows || !(job.power.cycle.time_s > 0)) return std::nullopt;
  return extended(job.power.cycle, present_time_s(job, training->version), job.power.waiting_w);
}

void BudgetStagger::follow(std::vector<StaggeredJob> jobs, double most_pct) {
  if (jobs == jobs_ && most_pct == most_pct_) return;
  jobs_ = std::move(jobs);
  most_pct_ = most_pct;
  std::vector<budget::JobCycle> cycles;
  for (const StaggeredJob& job : jobs_) cycles.push_back(job.cycle);
  stagger_ = budget::stagger_jobs(cycles, most_pct / 100);
}

Json BudgetStagger::to_json() const {
  Json jobs = Json::array();
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    jobs.push_back({{"job", jobs_[i].id}, {"delay_s", stagger_.delay_s[i]}});
  }
  return {{"together", range_json(stagger_.together)},
          {"staggered", range_json(stagger_.staggered)},
          {"jobs", std::move(jobs)},
          {"applied", false}};
}

}  // namespace lowgear::server
