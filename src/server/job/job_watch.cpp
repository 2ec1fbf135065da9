#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "server/job/job.h"

/// A job that runs: what its iterations give reason to.
namespace lowgear::server {
std::vector<RankIteration> Job::measured_ranks(const JobIteration& iteration) const {
  std::vector<RankIteration> measured;
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    const PlanVersion* plan = report ? record_.plans.find(report->plan_version) : nullptr;
    // What a plan expects that is older than the sweep is by a profile that has been replaced.
    if (plan == nullptr || plan->version < sweep().first_version()) continue;
    if (plan->expected_compute_s.empty() || !(report->compute_s > 0)) continue;
    const protocol::RankSpec& spec = record_.ranks.find(static_cast<int>(rank))->spec;
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

void Job::watch_ranks(const JobIteration& iteration, double now_s) {
  const std::vector<RankIteration> measured = measured_ranks(iteration);
  if (measured.empty()) return;
  std::vector<std::string> reasons;
  for (const SlowdownChange& change : record_.watch.observe(measured, iteration.iteration)) {
    if (!change.rank) {
      decide("drift", fmt::format("all ranks take {:.3g} times as long as profiled", change.factor), now_s);
      continue;
    }
    if (change.cause == SlowdownCause::none) {
      reasons.push_back(fmt::format("rank {} is as fast as profiled again", *change.rank));
    } else {
      reasons.push_back(fmt::format("rank {} takes {:.3g} times as long as profiled ({}, seen in {} iterations)",
                                    *change.rank, change.factor, name(change.cause), change.iterations));
      if (const PlanVersion* training = record_.plans.training()) {
        guard_.excuse(std::max(0.0, (iteration.time_s - training->time_s) * change.iterations));
      }
    }
    decide("straggler", reasons.back(), now_s);
  }
  if (!reasons.empty()) replan(fmt::format("{}", fmt::join(reasons, "; ")));
}

void Job::watch_drift(const JobIteration& iteration, double now_s) {
  if (!record_.spec.profiling) return;
  const auto drift = record_.watch.outdated_profile(iteration.iteration, now_s);
  if (!drift) return;
  decide("profile",
         fmt::format("profiled again, as all ranks have taken {:.3g} times as long as profiled for {} iterations",
                     drift->factor, iteration.iteration - drift->since_iteration + 1),
         now_s);
  begin_profile(now_s);
}

void Job::watch_slowdown(const JobIteration& iteration, double now_s) {
  // What ran before the first plan was meant to be slow: clocks were being tried out.
  if (iteration.newest_version < record_.plans.first_training_version()) return;
  if (iteration.newest_version < record_.plan_version()) guard_.not_in_effect();
  const auto decision = guard_.observe(now_s, iteration.time_s);
  if (!decision) return;
  decide("guard", decision->reason, now_s);
  if (decision->action == GuardAction::excuse_stall) return;
  if (decision->action == GuardAction::stale_baseline) return renew_baseline(decision->iterations, now_s);
  if (decision->action == GuardAction::full_clocks) {
    return issue_uniform(protocol::PlanPurpose::train, full_clock_mhz(), "full clocks: " + decision->reason, now_s);
  }
  replan(decision->reason);
}

/// From the newest iterations, which have just shown the old one to be wrong: as far as they are at full clocks.
void Job::renew_baseline(int iterations, double now_s) {
  std::vector<JobIteration> newest;
  const auto& kept = record_.history.kept();
  for (auto it = kept.rbegin(); it != kept.rend() && it->plan_version == record_.plan_version(); ++it) {
    if (static_cast<int>(newest.size()) == iterations) break;
    newest.push_back(*it);
  }
  const IterationMeans means = means_of(newest);
  if (means.iterations < 2) return;
  record_.baseline.renew(means);
  guard_.set_baseline(*record_.baseline.result());
  decide("baseline", fmt::format("full clocks now take {:.4g} s per iteration", record_.baseline.result()->time_s),
         now_s);
}

}  // namespace lowgear::server
