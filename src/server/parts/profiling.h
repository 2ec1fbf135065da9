#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"
#include "server/parts/baseline.h"
#include "server/parts/plan_version.h"
#include "server/parts/trial_sweep.h"
#include "server/planning/measured_profile.h"
#include "server/steering/clock_trials.h"

namespace lowgear::server {

/// `1410 MHz` or `1410, 1200 MHz`.
[[nodiscard]] std::string text_of_clocks(const std::vector<int>& clocks_mhz);

/// What an iteration takes at the highest clock that all GPUs of a job have.
struct FullClock {
  int mhz = 0;
  double time_s = 0;
};

/// An iteration of a job in which a clock was tried.
struct TrialIteration {
  std::int64_t number = 0;
  double time_s = 0;
};

/// A job's profile during measurement: the clocks to try, the allowance, and the results. For jobs
/// whose specification has them profiled, but for `sweep`, `own` and `is_judging`.
class Profiling {
 public:
  /// Starts a sweep; what was measured under plans before `first_version` does not count.
  void begin(int first_version);
  /// Trials may cost what the specification allows, once full clocks are measured.
  void allow(const protocol::JobSpec& spec, const IterationMeans& baseline);
  /// The clocks to begin with, of those that all GPUs have (highest first). Throws InputError when that costs too much.
  [[nodiscard]] std::vector<int> first_clocks(const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                              double full_clock_time_s) const;
  /// Makes a plan of full clocks one that tries out those of these clocks of which the allowance covers a trial: where
  /// not of all, the lowest are left out. Returns whether there is one; otherwise the plan is as it was. `why` ends its
  /// reason.
  [[nodiscard]] bool add_trials(PlanVersion& version, const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                const FullClock& full, std::string_view why) const;

  /// Counts what the iteration has cost, and learns from it what others will. Returns whether the allowance still
  /// covers the version's trials that follow it.
  [[nodiscard]] bool spend(const PlanVersion& version, const TrialIteration& iteration, const FullClock& full);

  [[nodiscard]] TrialSweep& sweep() { return sweep_; }
  [[nodiscard]] const TrialSweep& sweep() const { return sweep_; }
  [[nodiscard]] TrialBudget& budget() { return budget_; }
  [[nodiscard]] const TrialBudget& budget() const { return budget_; }

  /// What the ranks have measured becomes the job's profile. Throws InputError when it is none.
  void merge(int stages, bool simulated);
  /// Null: there is none.
  [[nodiscard]] const std::shared_ptr<const MeasuredProfile>& own() const { return own_; }
  void drop_own() { own_.reset(); }
  /// Whether it is found out if the profile is good enough.
  [[nodiscard]] bool is_judging() const { return is_judging_; }
  void set_judging(bool is_judging) { is_judging_ = is_judging; }

  /// Throws InputError. Cells are added to `sweep` afterwards, and its version is continued with `resume_version`.
  void restore(const JsonView& state, const protocol::JobSpec& spec, const std::optional<IterationMeans>& baseline);
  void resume_version(const JsonView& state, double now_s);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  TrialSweep sweep_;
  TrialBudget budget_;
  std::shared_ptr<const MeasuredProfile> own_;
  bool is_judging_ = false;
};

}  // namespace lowgear::server
