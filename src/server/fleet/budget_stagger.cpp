#include "server/fleet/budget_stagger.h"

#include <cstddef>
#include <utility>

namespace lowgear::server {
namespace {

Json range_json(const workflow::PowerRange& range) {
  return {{"peak_w", range.peak_w}, {"least_w", range.least_w}, {"swing_w", range.swing_w()}};
}

}  // namespace

void BudgetStagger::follow(const std::vector<StaggeredJob>& jobs, const StaggerSettings& settings, double now_s) {
  keeping_.follow(settings.applies ? std::span(jobs) : std::span<const StaggeredJob>(), settings.most_pct, now_s);
  std::vector<std::string> names;
  std::vector<workflow::JobCycle> cycles;
  for (const StaggeredJob& job : jobs) {
    names.push_back(job.id);
    const double period_s = keeping_.period_s(job.id);
    cycles.push_back(period_s > 0 ? cycle_of(job, period_s) : job.cycle);
  }
  if (names == jobs_ && cycles == cycles_ && settings == settings_) return;
  jobs_ = std::move(names);
  cycles_ = std::move(cycles);
  settings_ = settings;
  stagger_ = workflow::stagger_jobs(cycles_, settings_.most_pct / 100);
}

Json BudgetStagger::to_json() const {
  Json jobs = Json::array();
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Json entry = {{"job", jobs_[i]}, {"delay_s", stagger_.delay_s[i]}};
    keeping_.describe(jobs_[i], entry);
    jobs.push_back(std::move(entry));
  }
  return {{"together", range_json(stagger_.together)},
          {"staggered", range_json(stagger_.staggered)},
          {"jobs", std::move(jobs)},
          {"applied", settings_.applies && keeping_.acts()}};
}

}  // namespace lowgear::server
