#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "control/server/job/job.h"

/// A job that runs: what its iterations give reason to.
namespace lowgear {
namespace {

/// Drift that a profile is renewed for.
constexpr double kProfiledAgainDrift = 0.05;
constexpr double kProfilePeriodS = 3'600;
/// Most iterations that a drift has to last: doubled by each profile that did not end it.
constexpr std::int64_t kLongestLasting = 1'000'000;

/// Of a rank that the detector has found.
SlowdownCause cause_named(std::string_view text) {
  for (const SlowdownCause cause : {SlowdownCause::power_throttle, SlowdownCause::thermal_throttle}) {
    if (text == name(cause)) return cause;
  }
  return SlowdownCause::straggler;
}

/// Of most ranks: the median of what they take by what they are expected to.
double typical_slowdown(const std::vector<RankIteration>& measured) {
  std::vector<double> factors;
  for (const RankIteration& rank : measured) factors.push_back(rank.compute_time_s / rank.expected_time_s);
  const auto middle = factors.begin() + static_cast<std::ptrdiff_t>(factors.size() / 2);
  std::ranges::nth_element(factors, middle);
  return *middle;
}

}  // namespace

/// A new one continues from what was known when the server ended.
StragglerDetector& Job::detector() {
  if (detector_) return *detector_;
  detector_.emplace(spec_.parallel.world_size());
  for (const auto& [rank, slow] : detected_slow_) detector_->assume(rank, slow.factor, cause_named(slow.cause));
  return *detector_;
}

void Job::watch_ranks(const JobIteration& iteration, double now_s) {
  std::vector<RankIteration> measured;
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    const PlanVersion* plan = report ? version(report->plan_version) : nullptr;
    // What a plan expects that is older than the sweep is by a profile that has been replaced.
    if (plan == nullptr || plan->version < sweep_.first_version()) continue;
    if (plan->expected_compute_s.empty() || !(report->compute_s > 0)) continue;
    const RankSpec& spec = ranks_.find(static_cast<int>(rank))->spec;
    const auto index = static_cast<std::size_t>(plan->plan_of_replica.at(static_cast<std::size_t>(spec.dp_rank)));
    measured.push_back(
        {.rank = static_cast<int>(rank),
         .compute_time_s = report->compute_s,
         .expected_time_s = plan->expected_compute_s.at(index).at(static_cast<std::size_t>(spec.pp_rank)),
         .power_throttled_share = report->throttled_power,
         .thermal_throttled_share = report->throttled_thermal});
  }
  if (measured.empty()) return;
  if (drift_ && std::abs(typical_slowdown(measured) - 1) <= kProfiledAgainDrift) drift_.reset();  // it was a hiccup
  std::vector<std::string> reasons;
  for (const SlowdownChange& change : detector().observe(measured)) {
    if (!change.rank) {
      decide("drift", fmt::format("all ranks take {:.3g} times as long as profiled", change.factor), now_s);
      drift_ = Drift{.factor = change.factor, .since_iteration = iteration.iteration};
      continue;
    }
    if (change.cause == SlowdownCause::none) {
      detected_slow_.erase(*change.rank);
      reasons.push_back(fmt::format("rank {} is as fast as profiled again", *change.rank));
    } else {
      detected_slow_[*change.rank] = {change.factor, std::string(name(change.cause))};
      reasons.push_back(fmt::format("rank {} takes {:.3g} times as long as profiled ({}, seen in {} iterations)",
                                    *change.rank, change.factor, name(change.cause), change.iterations));
      if (guard_ && !history_.empty() && training_version_) {
        guard_->excuse(std::max(0.0, (iteration.time_s - training_version_->time_s) * change.iterations));
      }
    }
    decide("straggler", reasons.back(), now_s);
  }
  if (!reasons.empty()) replan(fmt::format("{}", fmt::join(reasons, "; ")));
}

/// A profile costs time: at most one an hour, unless the drift lasts.
void Job::watch_drift(const JobIteration& iteration, double now_s) {
  if (!spec_.profiling || !drift_ || std::abs(drift_->factor - 1) <= kProfiledAgainDrift) return;
  const bool is_recent = profiled_s_ && now_s - *profiled_s_ < kProfilePeriodS;
  if (!is_recent) lasting_iterations_ = kLastingIterations;
  if (is_recent && iteration.iteration - drift_->since_iteration < lasting_iterations_) return;
  if (is_recent) lasting_iterations_ = std::min(2 * lasting_iterations_, kLongestLasting);
  decide("profile",
         fmt::format("profiled again, as all ranks have taken {:.3g} times as long as profiled for {} iterations",
                     drift_->factor, iteration.iteration - drift_->since_iteration + 1),
         now_s);
  begin_profile(now_s);
}

void Job::watch_slowdown(const JobIteration& iteration, double now_s) {
  // What ran before the first plan was meant to be slow: clocks were being tried out.
  if (!guard_ || iteration.newest_version < first_training_version_) return;
  const auto decision = guard_->observe(now_s, iteration.time_s, full_clock_scale_);
  if (!decision) return;
  decide("guard", decision->reason, now_s);
  if (decision->action == GuardAction::stale_baseline) return renew_baseline(decision->iterations, now_s);
  if (decision->action == GuardAction::full_clocks) {
    return issue_uniform(PlanPurpose::train, ranks_.common_clocks().front(), "full clocks: " + decision->reason, now_s);
  }
  replan(decision->reason);
}

/// From the newest iterations, which have just shown the old one to be wrong: as far as they are at full clocks.
void Job::renew_baseline(int iterations, double now_s) {
  Sums sums;
  for (auto it = history_.rbegin(); it != history_.rend() && it->plan_version == plan_version(); ++it) {
    if (sums.count == iterations) break;
    sums.add(*it);
  }
  if (sums.count < 2) return;
  baseline_ = sums.baseline();
  guard_->set_baseline({baseline_->time_s, baseline_->time_error_s, baseline_->time_spread_s});
  decide("baseline", fmt::format("full clocks take {:.4g} s an iteration by now", baseline_->time_s), now_s);
}

}  // namespace lowgear
