#include "server/job/job_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace lowgear::server {
namespace {

/// A rank whose speed varies about what is found as slow would fill the list of decisions.
constexpr int kListedUnchanged = 3;

bool is_as_profiled(double factor) { return fmt::format("{:.3g}", factor) == "1"; }

/// The factor of a slow rank is that by which it differs from all ranks.
std::string beyond_all(double common_factor) {
  return is_as_profiled(common_factor) ? "" : fmt::format(", beyond the {:.3g} times of all ranks", common_factor);
}

std::vector<RankIteration> measured_ranks(const JobIteration& iteration, const PlanDelivery& plans,
                                          const RankRegistry& ranks, int first_version) {
  std::vector<RankIteration> measured;
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    const PlanVersion* plan = report ? plans.find(report->plan_version) : nullptr;
    if (plan == nullptr || plan->version < first_version) continue;
    if (plan->expected_compute_s.empty() || !(report->compute_s > 0)) continue;
    const protocol::RankSpec& spec = ranks.find(static_cast<int>(rank))->spec;
    const auto index = static_cast<std::size_t>(plan->plan_of_replica.at(static_cast<std::size_t>(spec.dp_rank)));
    measured.push_back(
        {.rank = static_cast<int>(rank),
         .compute_time_s = report->compute_s,
         .expected_time_s = plan->expected_compute_s.at(index).at(static_cast<std::size_t>(spec.pp_rank)),
         .power_throttled_share = report->throttled_power,
         .thermal_throttled_share = report->throttled_thermal});
  }
  return measured;
}

}  // namespace

JobStep JobWatch::watch_ranks(const JobIteration& iteration, const PlanDelivery& plans, const RankRegistry& ranks,
                              int first_version, JobOutbox& outbox, double now_s) {
  const std::vector<RankIteration> measured = measured_ranks(iteration, plans, ranks, first_version);
  if (measured.empty()) return {};
  std::vector<std::string> reasons;
  for (const SlowdownChange& change : profile_.observe(measured, iteration.iteration)) {
    if (!change.rank) {
      outbox.decide("drift",
                    is_as_profiled(change.factor)
                        ? "all ranks take as long as profiled"
                        : fmt::format("all ranks take {:.3g} times as long as profiled", change.factor),
                    now_s);
      continue;
    }
    if (change.cause == SlowdownCause::none) {
      reasons.push_back(fmt::format("rank {} is as fast as profiled again", *change.rank));
    } else {
      reasons.push_back(fmt::format("rank {} takes {:.3g} times as long as profiled{} ({}, seen in {} iterations)",
                                    *change.rank, change.factor, beyond_all(profile_.common_factor()),
                                    name(change.cause), change.iterations));
      if (const PlanVersion* training = plans.training()) {
        guard_.excuse(std::max(0.0, (iteration.time_s - training->time_s) * change.iterations));
      }
    }
    if (unchanged_ < kListedUnchanged) outbox.decide("straggler", reasons.back(), now_s);
  }
  if (reasons.empty()) return {};
  asked_for_ = fmt::format("{}", fmt::join(reasons, "; "));
  return Replan{asked_for_};
}

bool JobWatch::take_plan(const std::string& reason, bool is_new) {
  if (is_new) unchanged_ = 0;
  if (is_new || reason != asked_for_) return true;
  return ++unchanged_ <= kListedUnchanged;
}

JobStep JobWatch::watch_drift(const JobIteration& iteration, JobOutbox& outbox, double now_s) {
  const auto drift = profile_.outdated_profile(iteration.iteration, now_s);
  if (!drift) return {};
  outbox.decide(
      "profile",
      fmt::format("profiled again, as all ranks have taken {:.3g} times as long as profiled for {} iterations",
                  drift->factor, iteration.iteration - drift->since_iteration + 1),
      now_s);
  return MeasureProfile{};
}

JobStep JobWatch::watch_slowdown(const JobIteration& iteration, const PlanDelivery& plans, JobActivity& activity,
                                 JobOutbox& outbox, double now_s) {
  // Before the first plan clocks were tried out, which slows iterations on purpose.
  if (iteration.newest_version < plans.first_training_version()) return {};
  if (iteration.newest_version < plans.newest_version()) guard_.not_in_effect();
  const auto decision = guard_.observe(now_s, iteration.time_s);
  if (!decision) return {};
  outbox.decide("guard", decision->reason, now_s);
  activity.guard_decision(name(decision->action));
  switch (decision->action) {
    case GuardAction::excuse_stall:
      return {};
    case GuardAction::stale_baseline:
      return RenewBaseline{decision->iterations};
    case GuardAction::full_clocks:
      return FullClocks{decision->reason};
    case GuardAction::step_back:
    case GuardAction::recover:
      break;
  }
  return Replan{decision->reason};
}

}  // namespace lowgear::server
