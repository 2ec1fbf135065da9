#include "server/job/plan_guard.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lowgear::server {
namespace {

/// Steps by which the guard withdraws what a plan may be slower than the fastest.
constexpr std::array<double, 4> kShares{1.0, 2.0 / 3, 1.0 / 3, 0.0};

/// Planned times of the plan and of those that the guard would go back to.
std::vector<double> guarded_times(const JobPlan& plan) {
  std::vector<double> times{plan.time_s};
  const double fastest_s = plan.fastest_time_s;
  for (const double share : kShares) {
    const double time_s = fastest_s + (plan.time_s - fastest_s) * share;
    if (time_s < times.back() * (1 - 1e-9) && time_s > 0) times.push_back(time_s);
  }
  return times;
}

IterationBaseline of_iterations(const IterationMeans& baseline) {
  return {baseline.time_s, baseline.time_error_s, baseline.time_spread_s};
}

}  // namespace

/// The account is kept as long as the limit is: plans come and go.
void PlanGuard::set_plans(std::vector<double> planned_times_s, const std::optional<IterationMeans>& baseline,
                          double limit_pct) {
  if (is_capped_ || !baseline) return guard_.reset();
  if (!has_limit(limit_pct)) guard_.emplace(of_iterations(*baseline), GuardOptions{.limit_pct = limit_pct});
  guard_->set_plans(std::move(planned_times_s), full_clock_scale_);
}

void PlanGuard::follow(const JobPlan& plan, bool is_capped, const std::optional<IterationMeans>& baseline,
                       double limit_pct) {
  full_clock_scale_ = plan.full_clock_scale;
  is_capped_ = is_capped;
  set_plans(guarded_times(plan), baseline, limit_pct);
}

void PlanGuard::keep_to(double limit_pct, double planned_time_s, const std::optional<IterationMeans>& baseline) {
  set_plans({planned_time_s}, baseline, limit_pct);
}

void PlanGuard::set_baseline(const IterationMeans& baseline) {
  if (guard_) guard_->set_baseline(of_iterations(baseline));
}

void PlanGuard::not_in_effect() {
  if (guard_) guard_->not_in_effect();
}

void PlanGuard::excuse(double time_s) {
  if (guard_) guard_->excuse(time_s);
}

std::optional<GuardDecision> PlanGuard::observe(double now_s, double iteration_time_s) {
  return guard_ ? guard_->observe(now_s, iteration_time_s, full_clock_scale_) : std::nullopt;
}

double PlanGuard::allowed_share() const {
  if (!guard_ || guard_->level().is_full_clocks) return 1;
  return kShares[std::min<std::size_t>(static_cast<std::size_t>(guard_->level().steps_back), kShares.size() - 1)];
}

}  // namespace lowgear::server
