#include "server/job/iteration_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {

namespace {

constexpr double kMostIterationsAhead = 1e9;

void check_time(std::string_view what, double time_s) {
  if (time_s >= 0 && std::isfinite(time_s)) return;
  throw InputError(fmt::format("{} of {} s: it must be 0 or more and finite", what, time_s));
}

}  // namespace

std::int64_t switch_boundary(const IterationProgress& progress, double delivery_budget_s) {
  check_time("delivery budget", delivery_budget_s);
  check_time("time since the latest iteration", progress.since_complete_s);
  if (!(progress.iteration_time_s > 0) || !std::isfinite(progress.iteration_time_s)) {
    throw InputError(fmt::format("iteration time of {} s: it must be above 0 and finite", progress.iteration_time_s));
  }
  if (progress.latest_complete < -1) {
    throw InputError(fmt::format("latest complete iteration {}: it must be -1 or more", progress.latest_complete));
  }
  const double begun = std::floor((progress.since_complete_s + delivery_budget_s) / progress.iteration_time_s);
  if (begun > kMostIterationsAhead ||
      progress.latest_complete > std::numeric_limits<std::int64_t>::max() - 2 * std::int64_t{1'000'000'000}) {
    throw InputError(
        fmt::format("iterations of {} s: the plan would switch too far ahead; give a smaller budget than "
                    "{} s",
                    progress.iteration_time_s, delivery_budget_s));
  }
  return progress.latest_complete + 2 + static_cast<std::int64_t>(begun);
}

namespace {

/// In which all ranks get a new plan: a round trip, and a server that is busy with 10,000 of them.
constexpr double kDeliveryBudgetS = 0.1;
/// Shortest iteration that is assumed: reports of no time at all must not put plans off for ever.
constexpr double kShortestIterationS = 1e-3;
/// Time of an iteration as long as none has been reported.
constexpr double kUnknownIterationS = 0.05;

}  // namespace

std::size_t IterationHistory::add(const protocol::RankReports& reports, double now_s) {
  const std::int64_t latest = log_.latest();
  const std::size_t added = log_.add(reports, now_s);
  if (log_.latest() > latest) latest_s_ = now_s;
  return added;
}

void IterationHistory::keep(const JobIteration& iteration, int due_version) {
  not_following_ = {};
  if (!iteration.lacking.empty()) {
    incomplete_ = {.iterations = incomplete_.iterations + 1, .last = iteration.iteration, .ranks = iteration.lacking};
  }
  if (iteration.apart) {
    times_apart_ = {.iterations = times_apart_.iterations + 1,
                    .last = iteration.iteration,
                    .rank = iteration.apart->first,
                    .time_s = iteration.apart->second,
                    .other_s = iteration.time_s};
  }
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    if (!report) continue;
    std::int64_t& since = unfollowed_since_[rank];
    if (report->plan_version >= due_version) {
      since = -1;
      continue;
    }
    if (since < 0) since = iteration.iteration;
    if (not_following_.ranks++ == 0) not_following_.first_rank = static_cast<int>(rank);
  }
  JobIteration kept = iteration;
  kept.reports.clear();
  kept.lacking.clear();
  kept_.push_back(std::move(kept));
  if (kept_.size() > kKept) kept_.pop_front();
}

std::vector<JobIteration> IterationHistory::recent(int plan_version, std::size_t most) const {
  std::vector<JobIteration> recent;
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    if (recent.size() == most || it->plan_version != plan_version) break;
    recent.push_back(*it);
  }
  return recent;
}

std::vector<JobIteration> IterationHistory::recent_since(std::int64_t iteration) const {
  std::vector<JobIteration> recent;
  for (auto it = kept_.rbegin(); it != kept_.rend() && it->iteration >= iteration; ++it) {
    if (recent.size() == kRecent) break;
    recent.push_back(*it);
  }
  return recent;
}

std::int64_t IterationHistory::next_boundary(double now_s) const {
  if (latest() < 0) return 0;
  double shortest_s = kUnknownIterationS;
  if (!kept_.empty()) {
    const std::size_t begin = kept_.size() - std::min(kept_.size(), kRecent);
    shortest_s = kept_[begin].time_s;
    for (std::size_t i = begin; i < kept_.size(); ++i) shortest_s = std::min(shortest_s, kept_[i].time_s);
    shortest_s = std::max(shortest_s, kShortestIterationS);
  }
  return switch_boundary({.latest_complete = latest(),
                          .since_complete_s = std::clamp(now_s - latest_s_, 0.0, shortest_s),
                          .iteration_time_s = shortest_s},
                         kDeliveryBudgetS);
}

}  // namespace lowgear::server
