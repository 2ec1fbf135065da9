#include "server/fleet/staggering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/core/error.h"

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
  if (!follows || share == 0 || !(job.planning.power().cycle.time_s > 0)) return std::nullopt;
  const double time_s = present_time_s(job, training->version);
  StaggeredJob staggered{.id = job.id,
                         .plan_version = training->version,
                         .cycle = extended(job.planning.power().cycle, time_s, job.planning.power().waiting_w),
                         .waiting_w = job.planning.power().waiting_w * share,
                         .pace = job.begins.pace(training->version),
                         .most_delay_s = most_delay_s(job, time_s)};
  if (staggered.pace && staggered.pace->cannot_wait) {
    staggered.most_delay_s = 0;
    staggered.not_delayed =
        "its program lets no iteration be delayed: it has to call lowgear_stagger before each (docs/client.md)";
  } else if (!job.baseline.result()) {
    staggered.not_delayed = "its baseline is not measured, so the time that it may lose is not known";
  } else if (!(staggered.most_delay_s > 0)) {
    staggered.not_delayed = "its iterations take as long as its guard and settings allow";
  }
  for (double& power_w : staggered.cycle.power_w) power_w *= share;
  return staggered;
}

api::JobCycle cycle_of(const StaggeredJob& job, double period_s) {
  api::JobCycle cycle = extended(job.cycle, period_s, job.waiting_w);
  cycle.time_s = period_s;  // iterations that reports say to be a little longer than from begin to begin
  return cycle;
}

namespace {

/// A job that is early by less than this share of a period is in phase: begins are measured, and rounded.
constexpr double kInPhase = 1e-6;
/// Of a job that may not be delayed: what it needs counts as if it took so many iterations a period.
constexpr double kLeastStep = 1e-9;

void check_phased(const PhasedJob& job) {
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
  std::ranges::for_each(jobs, check_phased);
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

namespace {

/// A job that has begun no iteration for so many of them, and so long, is not followed.
constexpr double kSilentIterations = 10;
constexpr double kSilentS = 5;
/// Until an order has reached the ranks with the answers to their reports.
constexpr double kDeliveryS = 0.7;
constexpr int kDeliveryIterations = 2;
/// For how long an order counts: a correction that is spread over it, with a new look after it.
constexpr double kOrderS = 3;
constexpr int kLeastOrderIterations = 4;
constexpr int kMostOrderIterations = 1'000;
/// Offsets are chosen anew where the period has changed by more.
constexpr double kSamePeriod = 0.02;
/// Waits that are shorter are not worth one.
constexpr double kLeastDelayS = 50e-6;

std::int64_t end_of(const protocol::IterationDelays& order) { return order.from_iteration + order.iterations; }

/// The first iteration that an order of now can act on.
std::int64_t first_iteration(const IterationBegins::Pace& pace, const std::optional<protocol::IterationDelays>& order) {
  const std::int64_t reached =
      pace.iteration + kDeliveryIterations + static_cast<std::int64_t>(std::ceil(kDeliveryS / pace.time_s));
  return order ? std::max(reached, end_of(*order)) : reached;
}

/// That an order still adds to the begin of an iteration after `reported`.
double pending_s(const std::optional<protocol::IterationDelays>& order, std::int64_t reported, std::int64_t iteration) {
  if (!order) return 0;
  const std::int64_t first = std::max(order->from_iteration, reported + 1);
  const std::int64_t last = std::min(end_of(*order), iteration);  // at which it is over, or which is not to begin yet
  return last > first ? static_cast<double>(last - first) * order->delay_s : 0;
}

bool is_silent(const IterationBegins::Pace& pace, double now_s) {
  return now_s - pace.begin_s > kSilentS + kSilentIterations * pace.time_s;
}

int order_iterations(double period_s) {
  return static_cast<int>(
      std::clamp(std::ceil(kOrderS / period_s), double{kLeastOrderIterations}, double{kMostOrderIterations}));
}

}  // namespace

PhasedJob PhaseKeeping::predicted(const StaggeredJob& job) const {
  const Kept& kept = kept_.at(job.id);
  const std::int64_t iteration = first_iteration(*job.pace, kept.order);
  const auto ahead = static_cast<double>(iteration - job.pace->iteration);
  return {
      .begin_s = job.pace->begin_s + ahead * job.pace->time_s + pending_s(kept.order, job.pace->iteration, iteration),
      .time_s = job.pace->time_s,
      .most_delay_s = job.most_delay_s};
}

/// Chosen once for the same jobs with the same plans: they would go from one to another that is as good otherwise.
const std::vector<double>& PhaseKeeping::offsets(std::span<const StaggeredJob* const> group, double period_s,
                                                 double most_pct) {
  Group now{.members = {}, .period_s = period_s, .most_pct = most_pct, .offset_s = {}};
  for (const StaggeredJob* job : group) now.members.emplace_back(job->id, job->plan_version);
  const auto same = std::ranges::find_if(former_, [&](const Group& former) {
    return former.members == now.members && former.most_pct == most_pct &&
           std::abs(former.period_s - period_s) <= kSamePeriod * period_s;
  });
  if (same != former_.end()) {
    groups_.push_back(std::move(*same));
    former_.erase(same);
  } else {
    std::vector<api::JobCycle> cycles;
    for (const StaggeredJob* job : group) cycles.push_back(cycle_of(*job, period_s));
    now.offset_s = api::stagger_jobs(cycles, most_pct / 100).delay_s;
    groups_.push_back(std::move(now));
  }
  return groups_.back().offset_s;
}

void PhaseKeeping::keep(std::span<const StaggeredJob* const> group, std::vector<PhasedJob> phased, double most_pct) {
  const double period_s = std::ranges::max_element(phased, {}, &PhasedJob::time_s)->time_s;
  const std::vector<double>& offset_s = offsets(group, period_s, most_pct);
  for (std::size_t i = 0; i < group.size(); ++i) phased[i].offset_s = offset_s[i];
  const int iterations = order_iterations(period_s);
  const Phases phases = keep_phases(phased, iterations);
  for (std::size_t i = 0; i < group.size(); ++i) {
    Kept& kept = kept_.at(group[i]->id);
    kept.left_out.clear();
    kept.period_s = period_s;
    kept.offset_s = offset_s[i];
    kept.error_s = phases.error_s[i];
    const IterationBegins::Pace& pace = *group[i]->pace;
    if (kept.order && end_of(*kept.order) > pace.iteration + 1) continue;  // it is still carried out
    kept.order.reset();
    if (phases.delay_s[i] < kLeastDelayS) continue;
    kept.order = {.from_iteration = first_iteration(pace, {}), .iterations = iterations, .delay_s = phases.delay_s[i]};
  }
}

void PhaseKeeping::follow(std::span<const StaggeredJob> jobs, double most_pct, double now_s) {
  former_ = std::exchange(groups_, {});
  std::map<std::string, Kept, std::less<>> before = std::exchange(kept_, {});
  std::vector<const StaggeredJob*> paced;
  std::vector<PhasedJob> phased;
  for (const StaggeredJob& job : jobs) {
    Kept& kept = kept_[job.id];
    kept.not_delayed = job.not_delayed;
    kept.left_out = "when its iterations begin is not known yet";
    if (!job.pace || is_silent(*job.pace, now_s)) continue;
    const auto known = before.find(job.id);
    if (known != before.end()) kept.order = known->second.order;
    paced.push_back(&job);
    phased.push_back(predicted(job));
  }
  for (std::vector<std::size_t> members : same_period_groups(phased)) {
    std::ranges::sort(members);  // whichever is the slower at present: of equal jobs it is now one, now another
    std::vector<const StaggeredJob*> group;
    std::vector<PhasedJob> of_group;
    for (const std::size_t member : members) {
      group.push_back(paced[member]);
      of_group.push_back(phased[member]);
    }
    if (group.size() > 1) {
      keep(group, std::move(of_group), most_pct);
      continue;
    }
    Kept& alone = kept_.at(group.front()->id);
    alone.order.reset();
    alone.left_out = "no other job has iterations of the same length, within the delays that are allowed";
  }
}

std::optional<protocol::IterationDelays> PhaseKeeping::delays(const std::string& job) const {
  const auto kept = kept_.find(job);
  return kept == kept_.end() ? std::nullopt : kept->second.order;
}

double PhaseKeeping::period_s(const std::string& job) const {
  const auto kept = kept_.find(job);
  return kept == kept_.end() ? 0 : kept->second.period_s;
}

bool PhaseKeeping::acts() const {
  return std::ranges::any_of(kept_, [](const auto& entry) { return entry.second.order.has_value(); });
}

void PhaseKeeping::describe(const std::string& job, Json& entry) const {
  const auto found = kept_.find(job);
  if (found == kept_.end()) return;
  const Kept& kept = found->second;
  const auto or_null = [](const std::string& reason) { return reason.empty() ? Json() : Json(reason); };
  entry["left_out"] = or_null(kept.left_out);
  entry["not_delayed"] = or_null(kept.not_delayed);
  if (!kept.left_out.empty()) return;
  entry["delay_s"] = kept.offset_s;
  entry["period_s"] = kept.period_s;
  entry["error_s"] = kept.error_s;
  entry["iteration_delay_s"] = kept.order ? kept.order->delay_s : 0;
}

namespace {

Json range_json(const api::PowerRange& range) {
  return {{"peak_w", range.peak_w}, {"least_w", range.least_w}, {"swing_w", range.swing_w()}};
}

}  // namespace

void BudgetStagger::follow(const std::vector<StaggeredJob>& jobs, const StaggerSettings& settings, double now_s) {
  keeping_.follow(settings.applies ? std::span(jobs) : std::span<const StaggeredJob>(), settings.most_pct, now_s);
  std::vector<std::string> names;
  std::vector<api::JobCycle> cycles;
  for (const StaggeredJob& job : jobs) {
    names.push_back(job.id);
    const double period_s = keeping_.period_s(job.id);
    cycles.push_back(period_s > 0 ? cycle_of(job, period_s) : job.cycle);
  }
  if (names == jobs_ && cycles == cycles_ && settings == settings_) return;
  jobs_ = std::move(names);
  cycles_ = std::move(cycles);
  settings_ = settings;
  stagger_ = api::stagger_jobs(cycles_, settings_.most_pct / 100);
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
