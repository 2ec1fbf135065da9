#pragma once

#include <optional>

#include "base/core/formats/json.h"
#include "control/server/parts/iteration_log.h"
#include "control/server/parts/plan_version.h"

namespace lowgear::server {

/// Time and energy of iterations at full clocks, with standard errors of the means.
struct Baseline {
  double time_s = 0;
  double time_error_s = 0;
  double time_spread_s = 0;  ///< standard deviation of single iterations
  std::optional<double> energy_j;
  double energy_error_j = 0;
  int iterations = 0;
};

/// Means of iterations as they come in.
class IterationSums {
 public:
  void add(const JobIteration& iteration);
  [[nodiscard]] int count() const { return count_; }
  /// Of at least one iteration.
  [[nodiscard]] Baseline baseline() const;

 private:
  int count_ = 0;
  double time_s_ = 0;
  double time_s2_ = 0;
  double energy_j_ = 0;
  double energy_j2_ = 0;
  int with_energy_ = 0;
};

/// A job's iterations at full clocks, which its plans are compared with.
class BaselineMeasurement {
 public:
  /// Iterations under this plan count; what was measured before is of another time.
  void begin(int plan_version, double now_s);
  [[nodiscard]] int plan_version() const { return plan_version_; }
  [[nodiscard]] double begun_s() const { return begun_s_; }

  /// Counts the iteration when it is one of the baseline. `plan`: the version that was begun with; null: it is lost.
  void add(const JobIteration& iteration, const PlanVersion* plan);
  /// How many iterations have counted.
  [[nodiscard]] int counted() const { return sums_.count(); }
  /// Empty until there are enough.
  [[nodiscard]] const std::optional<Baseline>& result() const { return result_; }
  /// Of later iterations.
  void renew(const Baseline& baseline) { result_ = baseline; }

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  [[nodiscard]] bool counts(const JobIteration& iteration, const PlanVersion& plan) const;

  int plan_version_ = 0;
  double begun_s_ = 0;
  IterationSums sums_;
  std::optional<Baseline> result_;
};

}  // namespace lowgear::server
