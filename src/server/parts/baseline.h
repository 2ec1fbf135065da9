#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/core/formats/json.h"
#include "server/parts/iteration_means.h"
#include "server/parts/plan_version.h"

namespace lowgear::server {

/// A job's iterations at full clocks, which its plans are compared with.
class BaselineMeasurement {
 public:
  /// Iterations under this plan count; what was measured before is of another time.
  void begin(int plan_version, double now_s);
  [[nodiscard]] int plan_version() const { return plan_version_; }
  [[nodiscard]] double begun_s() const { return begun_s_; }

  /// To be called for every iteration, in order. Counts the iteration when it is one of the baseline. `plan`: the
  /// version that was begun with; null: it is lost.
  void add(const JobIteration& iteration, const PlanVersion* plan);
  /// The first iteration under this plan, which was begun with. A job that continues from a checkpoint begins with any
  /// number, which is not known yet when its first plan is made.
  [[nodiscard]] std::int64_t first_iteration(const PlanVersion& plan) const;
  /// How many iterations have counted, without those that stalled.
  [[nodiscard]] int counted() const { return means_of(iterations_).iterations; }
  /// Empty until there are enough.
  [[nodiscard]] const std::optional<IterationMeans>& result() const { return result_; }
  /// Of later iterations.
  void renew(const IterationMeans& baseline) { result_ = baseline; }

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  [[nodiscard]] bool counts(const JobIteration& iteration, const PlanVersion& plan) const;

  int plan_version_ = 0;
  double begun_s_ = 0;
  std::int64_t first_seen_ = -1;          ///< iteration after `begin`
  std::vector<JobIteration> iterations_;  ///< of which `result_` is
  std::optional<IterationMeans> result_;
};

}  // namespace lowgear::server
