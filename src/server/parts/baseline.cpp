#include "server/parts/baseline.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/core/formats/json.h"
#include "server/parts/state_bounds.h"

namespace lowgear::server {
namespace {

/// Iterations that are waited for until all ranks follow the plan.
constexpr int kPatience = 25;

}  // namespace

void BaselineMeasurement::begin(int plan_version, double now_s) {
  *this = {};
  plan_version_ = plan_version;
  begun_s_ = now_s;
}

void BaselineMeasurement::add(const JobIteration& iteration, const PlanVersion* plan) {
  if (first_seen_ < 0) first_seen_ = iteration.iteration;
  if (plan == nullptr || !counts(iteration, *plan)) return;
  iterations_.push_back(iteration);
  iterations_.back().reports.clear();
  const IterationMeans means = means_of(iterations_);
  if (means.iterations >= std::max(2, plan->iterations)) result_ = means;
}

std::int64_t BaselineMeasurement::first_iteration(const PlanVersion& plan) const {
  return std::max(plan.from_iteration, first_seen_);
}

/// A rank that never takes the plan does not hold the job up for good.
bool BaselineMeasurement::counts(const JobIteration& iteration, const PlanVersion& plan) const {
  if (result_ || plan_version_ == 0 || iteration.newest_version != plan_version_) return false;
  const std::int64_t follows_since = iteration.iteration - first_iteration(plan);
  const bool all_follow = iteration.plan_version == plan_version_;
  return follows_since >= (all_follow ? plan.settle_iterations : kPatience);
}

void BaselineMeasurement::restore(const JsonView& state) {
  plan_version_ = state.at("baseline_version").integer_in(0, kMaxStoredNumber);
  if (!has_value(state, "baseline")) return;
  const JsonView baseline = state.at("baseline");
  result_ = IterationMeans{.iterations = baseline.at("iterations").integer_in(1, kMaxStoredNumber),
                           .time_s = baseline.at("time_s").number(),
                           .time_error_s = baseline.at("time_error_s").number(),
                           .time_spread_s = baseline.at("time_spread_s").number(),
                           .energy_j = {},
                           .energy_error_j = baseline.at("energy_error_j").number()};
  if (has_value(baseline, "energy_j")) result_->energy_j = baseline.at("energy_j").number();
}

void BaselineMeasurement::write_state(Json& state) const {
  state["baseline_version"] = plan_version_;
  state["baseline"] = nullptr;
  if (!result_) return;
  state["baseline"] = {{"time_s", result_->time_s},
                       {"time_error_s", result_->time_error_s},
                       {"time_spread_s", result_->time_spread_s},
                       {"energy_j", or_null(result_->energy_j)},
                       {"energy_error_j", result_->energy_error_j},
                       {"iterations", result_->iterations}};
}

}  // namespace lowgear::server
