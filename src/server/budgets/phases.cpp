#include "server/budgets/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// A job that is early by less than this share of a period is in phase: begins are measured, and rounded.
constexpr double kInPhase = 1e-6;
/// Of a job that may not be delayed: what it needs counts as if it took so many iterations a period.
constexpr double kLeastStep = 1e-9;

void check(const PhasedJob& job) {
  const bool is_finite = std::isfinite(job.begin_s) && std::isfinite(job.time_s) && std::isfinite(job.offset_s);
  if (is_finite && job.time_s > 0 && job.most_delay_s >= 0) return;
  throw InputError(
      fmt::format("a job with iterations of {} s that begin at {} s, may be delayed by {} s and should be "
                  "{} s late: times must be finite, that of an iteration above 0, the delay not below 0",
                  job.time_s, job.begin_s, job.most_delay_s, job.offset_s));
}

/// In [0, period).
double in_period(double time_s, double period_s) {
  const double rest_s = time_s - std::floor(time_s / period_s) * period_s;
  return rest_s >= period_s * (1 - kInPhase) || rest_s < period_s * kInPhase ? 0 : rest_s;
}

/// What each job has to wait in all when job `still` does not wait.
std::vector<double> needed_s(std::span<const double> late_s, std::size_t still, double period_s) {
  std::vector<double> needed;
  for (const double late : late_s) needed.push_back(in_period(late_s[still] - late, period_s));
  return needed;
}

/// Iterations until the last job is in phase.
double iterations_to(std::span<const PhasedJob> jobs, std::span<const double> needed, double period_s) {
  double most = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double step_s = jobs[i].most_delay_s - (period_s - jobs[i].time_s);
    most = std::max(most, needed[i] / std::max(step_s, kLeastStep * period_s));
  }
  return most;
}

}  // namespace

std::vector<std::vector<std::size_t>> same_period_groups(std::span<const PhasedJob> jobs) {
  std::vector<std::size_t> by_time(jobs.size());
  std::iota(by_time.begin(), by_time.end(), std::size_t{0});
  std::ranges::stable_sort(by_time, std::greater(), [&](std::size_t job) { return jobs[job].time_s; });
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t job : by_time) {
    const auto follows = [&](const std::vector<std::size_t>& group) {
      return jobs[job].time_s + jobs[job].most_delay_s >= jobs[group.front()].time_s;
    };
    const auto group = std::ranges::find_if(groups, follows);
    group == groups.end() ? groups.push_back({job}) : group->push_back(job);
  }
  return groups;
}

Phases keep_phases(std::span<const PhasedJob> jobs, int iterations) {
  if (jobs.empty() || iterations < 1) throw InputError("phases need a job and an iteration");
  std::ranges::for_each(jobs, check);
  Phases phases;
  phases.period_s = std::ranges::max_element(jobs, {}, &PhasedJob::time_s)->time_s;
  const double origin_s = jobs.front().begin_s;  // begins are large numbers
  std::vector<double> late_s;
  for (const PhasedJob& job : jobs) late_s.push_back(job.begin_s - origin_s - job.offset_s);
  double fewest = std::numeric_limits<double>::infinity();
  for (std::size_t still = 0; still < jobs.size(); ++still) {
    std::vector<double> needed = needed_s(late_s, still, phases.period_s);
    const double found = iterations_to(jobs, needed, phases.period_s);
    if (found >= fewest) continue;
    fewest = found;
    phases.error_s = std::move(needed);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double wanted_s = phases.period_s - jobs[i].time_s + phases.error_s[i] / iterations;
    phases.delay_s.push_back(std::min(wanted_s, jobs[i].most_delay_s));
  }
  return phases;
}

}  // namespace lowgear::server
