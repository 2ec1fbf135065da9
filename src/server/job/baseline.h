#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/core/formats/json.h"
#include "server/job/iteration_log.h"
#include "server/job/job_layout.h"
#include "server/job/job_step.h"

namespace lowgear::server {

/// Time and energy of one iteration as means over several, with standard errors. Iterations that stalled are left out,
/// unless `means_by_predictions` finds no others.
struct IterationMeans {
  int iterations = 0;  ///< that they are means of; 0: there are none, and no means
  int stalled = 0;     ///< left out, or all of them
  int unmeasured = 0;  ///< of `iterations`, without energy
  double time_s = 0;
  double time_error_s = 0;         ///< from the scatter of iterations; 0 of a single one
  double time_spread_s = 0;        ///< standard deviation of single iterations
  std::optional<double> energy_j;  ///< of those that have it; empty unless more than half of them do
  double energy_error_j = 0;       ///< from the scatter, or from the errors of the meters where that is more
  bool is_shared = false;          ///< in one of them another job had GPUs of this one

  /// Whether the time is known to worse than 10 %: stalls decide it, and comparisons with it mean nothing.
  [[nodiscard]] bool is_uncertain() const { return time_error_s > 0.1 * time_s; }
};

/// Means of these iterations. An iteration that takes more than twice their median has stalled: clocks slow down every
/// iteration, while storage, network and a busy machine hold up single ones, by times that are no error of a mean but
/// would decide it. Where more than a quarter do, it is no exception, and all of them count.
[[nodiscard]] IterationMeans means_of(std::span<const JobIteration> iterations);

/// The same of iterations most of which may have stalled: those of at most twice their lower quartile.
[[nodiscard]] IterationMeans means_without_stalls(std::span<const JobIteration> iterations);

/// The same of iterations whose lengths differ: one has stalled whose units took more than twice their predicted time.
/// Where all have, the means are those of all.
[[nodiscard]] IterationMeans means_by_predictions(std::span<const JobIteration> iterations);

/// How far predicted times of iterations are from measured ones, as shares of these: above 0 where they are too long.
struct PredictionError {
  int iterations = 0;  ///< of which both are known, and that have not stalled; 0: all have, and there are no errors
  int stalled = 0;     ///< of which both are known
  double mean = 0;
  double rms = 0;
};

/// By the units of the iterations, without gradient sums and optimizer. Empty where no iteration has both times.
[[nodiscard]] std::optional<PredictionError> prediction_error(const std::deque<JobIteration>& iterations);

/// The plan that a baseline is measured under.
[[nodiscard]] PlanVersion baseline_plan(const JobLayout& layout, int full_clock_mhz);

/// A job's iterations at full clocks, which its plans are compared with.
class BaselineMeasurement {
 public:
  /// Only iterations under this plan count from now on.
  void begin(int plan_version, double now_s);
  [[nodiscard]] int plan_version() const { return plan_version_; }
  /// Ends it when no rank follows its plan: all agents refuse it, or none can set its clock.
  [[nodiscard]] JobStep watch(const PlanDelivery& plans, std::int64_t latest_iteration, double now_s) const;

  /// To be called for every iteration, in order. Counts the iteration when it is one of the baseline. `plan`: the
  /// version that was begun with; null: it is lost. A mean that is uncertain waits for more iterations, up to four
  /// times as many as the plan wants, and is then made without stalls.
  void add(const JobIteration& iteration, const PlanVersion* plan);
  /// The same for an iteration whose times mean nothing: the measurement begins anew after it. Once many have come in a
  /// row they count after all, as there may be no others: the result is of no use then.
  void skip(const JobIteration& iteration, const PlanVersion* plan);
  /// Whether such iterations are among those of the result.
  [[nodiscard]] bool is_of_no_use() const { return result_ && skipped_ > kMostSkipped; }
  /// The first iteration under this plan, which was begun with. A job that continues from a checkpoint begins with any
  /// number, which is not known yet when its first plan is made.
  [[nodiscard]] std::int64_t first_iteration(const PlanVersion& plan) const;
  /// Number of iterations that have counted, without those that stalled.
  [[nodiscard]] int counted() const { return means_of(iterations_).iterations; }
  /// Empty until there are enough.
  [[nodiscard]] const std::optional<IterationMeans>& result() const { return result_; }
  /// Replaces the result by that of later iterations.
  void renew(const IterationMeans& baseline) { result_ = baseline; }

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  static constexpr int kMostSkipped = 25;
  [[nodiscard]] bool counts(const JobIteration& iteration, const PlanVersion& plan) const;

  int plan_version_ = 0;
  double begun_s_ = 0;
  std::int64_t first_seen_ = -1;          ///< iteration after `begin`
  int skipped_ = 0;                       ///< iterations, until there was a result
  std::vector<JobIteration> iterations_;  ///< of which `result_` is
  std::optional<IterationMeans> result_;
};

}  // namespace lowgear::server
