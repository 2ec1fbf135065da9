#pragma once

#include <optional>
#include <vector>

#include "server/job/baseline.h"
#include "server/planning/measured_job.h"
#include "server/steering/slowdown_guard.h"

namespace lowgear::server {

/// Sums up the time that a job's plans cost. There is no guard under a power cap, which may cost time and
/// would be exceeded at full clocks, and none without a baseline.
class PlanGuard {
 public:
  /// Guards a plan that is about to be followed. `is_capped`: it was made to keep a power cap.
  void follow(const JobPlan& plan, bool is_capped, const std::optional<IterationMeans>& baseline, double limit_pct);
  /// Guards the plan in force by another limit.
  void keep_to(double limit_pct, double planned_time_s, const std::optional<IterationMeans>& baseline);
  /// The baseline was measured again; the account stays.
  void set_baseline(const IterationMeans& baseline);
  /// No rank follows the guarded plan yet in the iteration that is observed next.
  void not_in_effect();
  /// Takes time off the account that no plan has caused.
  void excuse(double time_s);
  /// An iteration of the whole job. Returns the decision that it leads to.
  [[nodiscard]] std::optional<GuardDecision> observe(double now_s, double iteration_time_s);

  /// Whether there is a guard with this limit.
  [[nodiscard]] bool has_limit(double limit_pct) const { return guard_ && guard_->limit_pct() == limit_pct; }
  [[nodiscard]] bool requires_full_clocks() const { return guard_ && guard_->level().is_full_clocks; }
  /// The share that is left of what plans may be slower than the fastest.
  [[nodiscard]] double allowed_share() const;

  /// Whether the newest plan that was followed was made to keep a power cap.
  [[nodiscard]] bool is_capped() const { return is_capped_; }
  void restore(bool is_capped) { is_capped_ = is_capped; }

 private:
  void set_plans(std::vector<double> planned_times_s, const std::optional<IterationMeans>& baseline, double limit_pct);

  std::optional<SlowdownGuard> guard_;
  double full_clock_scale_ = 1;
  bool is_capped_ = false;
};

}  // namespace lowgear::server
