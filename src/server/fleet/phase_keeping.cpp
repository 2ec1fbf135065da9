#include "server/fleet/phase_keeping.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace lowgear::server {
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
    std::vector<workflow::JobCycle> cycles;
    for (const StaggeredJob* job : group) cycles.push_back(cycle_of(*job, period_s));
    now.offset_s = workflow::stagger_jobs(cycles, most_pct / 100).delay_s;
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
    alone.left_out = "no other job's iterations take as long, within what delays may add";
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

}  // namespace lowgear::server
