#include "server/job/baseline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/core/formats/json.h"
#include "server/store/store.h"

namespace lowgear::server {

namespace {

constexpr double kStallFactor = 2;
/// Of this many iterations one may have stalled.
constexpr std::size_t kIterationsPerStall = 4;

/// Time above which iterations have stalled, by the time that one in `parts` takes at most. Of 2: the lower median.
double stall_time_s(std::span<const JobIteration> iterations, std::size_t parts) {
  std::vector<double> times_s;
  for (const JobIteration& iteration : iterations) times_s.push_back(iteration.time_s);
  const auto typical = times_s.begin() + static_cast<std::ptrdiff_t>((times_s.size() - 1) / parts);
  std::ranges::nth_element(times_s, typical);
  return kStallFactor * *typical;
}

class Sum {
 public:
  void add(double value) {
    ++count_;
    const double before = value - mean_;
    mean_ += before / count_;
    squares_ += before * (value - mean_);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double spread() const { return count_ < 2 ? 0 : std::sqrt(squares_ / (count_ - 1)); }
  [[nodiscard]] double error() const { return count_ < 2 ? 0 : spread() / std::sqrt(count_); }

 private:
  int count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  ///< of differences from the mean (Welford)
};

}  // namespace

namespace {

template <typename HasStalled>
IterationMeans means_without(std::span<const JobIteration> iterations, HasStalled has_stalled) {
  Sum time_s;
  Sum energy_j;
  double meter_error2_j2 = 0;
  bool is_shared = false;
  for (const JobIteration& iteration : iterations) {
    if (has_stalled(iteration)) continue;
    time_s.add(iteration.time_s);
    is_shared = is_shared || iteration.is_shared;
    if (!iteration.energy_j) continue;
    energy_j.add(*iteration.energy_j);
    meter_error2_j2 += iteration.energy_error_j * iteration.energy_error_j;
  }
  IterationMeans means{.iterations = time_s.count(),
                       .stalled = static_cast<int>(iterations.size()) - time_s.count(),
                       .unmeasured = time_s.count() - energy_j.count(),
                       .time_s = time_s.mean(),
                       .time_error_s = time_s.error(),
                       .time_spread_s = time_s.spread(),
                       .energy_j = {},
                       .is_shared = is_shared};
  if (energy_j.count() > means.unmeasured) {
    means.energy_j = energy_j.mean();
    means.energy_error_j = std::max(energy_j.error(), std::sqrt(meter_error2_j2) / energy_j.count());
  }
  return means;
}

IterationMeans means_up_to(std::span<const JobIteration> iterations, double limit_s) {
  return means_without(iterations, [limit_s](const JobIteration& iteration) { return iteration.time_s > limit_s; });
}

/// Against its prediction, by its units where these are known.
bool stalls_by_prediction(const JobIteration& iteration) {
  return iteration.predicted_time_s &&
         iteration.units_time_s.value_or(iteration.time_s) > kStallFactor * *iteration.predicted_time_s;
}

}  // namespace

IterationMeans means_by_predictions(std::span<const JobIteration> iterations) {
  if (iterations.empty()) return {};
  const IterationMeans means = means_without(iterations, stalls_by_prediction);
  if (means.iterations > 0) return means;
  IterationMeans all = means_up_to(iterations, std::numeric_limits<double>::infinity());
  all.stalled = means.stalled;
  return all;
}

std::optional<PredictionError> prediction_error(const std::deque<JobIteration>& iterations) {
  PredictionError error;
  double sum = 0;
  double squares = 0;
  for (const JobIteration& iteration : iterations) {
    if (!iteration.predicted_time_s || !iteration.units_time_s) continue;
    if (stalls_by_prediction(iteration)) {
      ++error.stalled;
      continue;
    }
    const double difference = *iteration.predicted_time_s / *iteration.units_time_s - 1;
    ++error.iterations;
    sum += difference;
    squares += difference * difference;
  }
  if (error.iterations == 0) return error.stalled > 0 ? std::optional(error) : std::nullopt;
  error.mean = sum / error.iterations;
  error.rms = std::sqrt(squares / error.iterations);
  return error;
}

IterationMeans means_of(std::span<const JobIteration> iterations) {
  if (iterations.empty()) return {};
  const double limit_s = stall_time_s(iterations, 2);
  const auto stalled = static_cast<std::size_t>(
      std::ranges::count_if(iterations, [&](const JobIteration& iteration) { return iteration.time_s > limit_s; }));
  const bool is_exception = stalled * kIterationsPerStall <= iterations.size();
  return means_up_to(iterations, is_exception ? limit_s : std::numeric_limits<double>::infinity());
}

IterationMeans means_without_stalls(std::span<const JobIteration> iterations) {
  return iterations.empty() ? IterationMeans{} : means_up_to(iterations, stall_time_s(iterations, 4));
}

namespace {

/// Times as many iterations as are wanted, of which an uncertain baseline is made.
constexpr std::size_t kMostBaselines = 4;
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;
/// Iterations that are waited for until all ranks follow the plan.
constexpr int kPatience = 25;
/// Iterations after which no rank is expected to take the plan any more, and the time that ranks have in any case.
constexpr int kNoFollowerIterations = 50;
constexpr double kFollowersS = 10;

}  // namespace

PlanVersion baseline_plan(const JobLayout& layout, int full_clock_mhz) {
  PlanVersion plan = layout.uniform_plan(protocol::PlanPurpose::baseline, full_clock_mhz);
  plan.reason = "full clocks, for comparison";
  plan.iterations = kBaselineIterations;
  plan.settle_iterations = kBaselineSettle;
  return plan;
}

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
  const int wanted = std::max(2, plan->iterations);
  if (means.iterations >= wanted && !means.is_uncertain()) {
    result_ = means;
  } else if (iterations_.size() >= kMostBaselines * static_cast<std::size_t>(wanted)) {
    result_ = means_without_stalls(iterations_);
  }
}

void BaselineMeasurement::skip(const JobIteration& iteration, const PlanVersion* plan) {
  if (result_) return;
  if (++skipped_ > kMostSkipped) return add(iteration, plan);
  if (first_seen_ < 0) first_seen_ = iteration.iteration;
  iterations_.clear();
}

std::int64_t BaselineMeasurement::first_iteration(const PlanVersion& plan) const {
  return std::max(plan.from_iteration, first_seen_);
}

JobStep BaselineMeasurement::watch(const PlanDelivery& plans, std::int64_t latest_iteration, double now_s) const {
  if (result_ || now_s - begun_s_ < kFollowersS) return {};
  const PlanVersion* plan = plans.find(plan_version_);
  if (plan == nullptr) return MeasureBaseline{};  // its row in the store was damaged
  if (latest_iteration < first_iteration(*plan) + kNoFollowerIterations || counted() > 0) return {};
  return Observe{"no rank follows the plan for the baseline: see the logs of the agents", kProfileRetryS};
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
                           .energy_error_j = baseline.at("energy_error_j").number(),
                           .is_shared = has_value(baseline, "is_shared") && baseline.at("is_shared").boolean()};
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
                       {"iterations", result_->iterations},
                       {"is_shared", result_->is_shared}};
}

}  // namespace lowgear::server
