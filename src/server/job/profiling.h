#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"
#include "server/job/baseline.h"
#include "server/job/job_layout.h"
#include "server/job/job_outbox.h"
#include "server/job/job_step.h"
#include "server/job/rank_registry.h"
#include "server/job/trial_sweep.h"
#include "server/planning/planning_inputs.h"
#include "server/steering/clock_trials.h"

namespace lowgear::server {

/// Time of an iteration at the highest clock that all GPUs of a job have.
struct FullClock {
  int mhz = 0;
  double time_s = 0;
};

/// An iteration of a job in which a clock was tried.
struct TrialIteration {
  std::int64_t number = 0;
  double time_s = 0;
};

/// The state of a job as far as its profile depends on it.
struct ProfiledJob {
  const protocol::JobSpec& spec;
  const JobLayout& layout;
  const RankRegistry& ranks;
  const PlanDelivery& plans;
  const std::optional<IterationMeans>& baseline;
  std::int64_t latest_iteration = -1;
};

/// A job's profile during measurement: the clocks to try, the allowance, and the results. A job whose specification
/// has no profiling uses `sweep`, `own` and `is_judging` alone.
class Profiling {
 public:
  /// Starts a sweep; measurements under plans before `first_version` do not count.
  void begin(int first_version);
  /// No clock is tried: another profile is used.
  void skip() { sweep_ = {}; }

  /// The first round, once full clocks are measured.
  [[nodiscard]] JobStep begin_trials(const ProfiledJob& job);
  /// The plan of the round was issued.
  void begin_round(const PlanVersion& issued, double now_s);
  /// Adds the measurements of a rank. Returns whether they are new, and of this sweep.
  bool add(const protocol::RankCells& cells) { return sweep_.add(cells); }
  /// Counts the cost of an iteration. Ends the trials when those that follow would cost more than is allowed.
  [[nodiscard]] JobStep count(const JobIteration& iteration, const ProfiledJob& job, JobOutbox& outbox);
  /// Judges the measurements once no rank is waited for.
  [[nodiscard]] JobStep end_trials(const ProfiledJob& job, JobOutbox& outbox, double now_s);
  /// Continues without ranks that post nothing: an agent may have gone.
  [[nodiscard]] JobStep watch(const ProfiledJob& job, JobOutbox& outbox, double now_s);
  /// Another round, unless the profile is good enough or more trials would cost too much. Then a plan, unless the
  /// energy of plans is known too badly.
  [[nodiscard]] JobStep take_verdict(const ProfileVerdict& verdict, const ProfiledJob& job, JobOutbox& outbox,
                                     double now_s);
  /// The planner judges the profile no longer.
  void end_judging() { is_judging_ = false; }

  /// Trials may cost what the specification allows, once full clocks are measured.
  void allow(const protocol::JobSpec& spec, const IterationMeans& baseline);
  /// The clocks to begin with, of those that all GPUs have (highest first). Throws InputError when that costs too much.
  [[nodiscard]] std::vector<int> first_clocks(const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                              double full_clock_time_s) const;
  /// Makes a plan of full clocks one that tries those of these clocks that the allowance covers: where it covers some
  /// alone, the lowest are left out. Returns whether there is one; otherwise the plan is unchanged. `why` ends its
  /// reason.
  [[nodiscard]] bool add_trials(PlanVersion& version, const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                const FullClock& full, std::string_view why) const;
  /// Counts the cost of the iteration, and learns from it the cost of others. Returns whether the allowance still
  /// covers the version's trials that follow it.
  [[nodiscard]] bool spend(const PlanVersion& version, const TrialIteration& iteration, const FullClock& full);
  /// The ranks' measurements become the job's profile. Throws InputError when they are none.
  void merge(int stages, bool simulated);

  [[nodiscard]] TrialSweep& sweep() { return sweep_; }
  [[nodiscard]] const TrialSweep& sweep() const { return sweep_; }
  [[nodiscard]] TrialBudget& budget() { return budget_; }
  [[nodiscard]] const TrialBudget& budget() const { return budget_; }
  /// Null: the job has measured no profile.
  [[nodiscard]] const std::shared_ptr<const MeasuredProfile>& own() const { return own_; }
  void drop_own() { own_.reset(); }

  /// Throws InputError. Cells are added to `sweep` afterwards, and its version is continued with `resume_version`.
  void restore(const JsonView& state, const protocol::JobSpec& spec, const std::optional<IterationMeans>& baseline);
  void resume_version(const JsonView& state, double now_s);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  [[nodiscard]] std::optional<PlanVersion> trials(const std::vector<int>& clocks_mhz, const ProfiledJob& job,
                                                  std::string_view why) const;
  [[nodiscard]] JobStep drop_unmeasured_ranks(const std::vector<int>& missing, const ProfiledJob& job,
                                              JobOutbox& outbox, double now_s);
  [[nodiscard]] std::string why_no_more(std::int64_t latest_iteration, double now_s) const;

  TrialSweep sweep_;
  TrialBudget budget_;
  std::shared_ptr<const MeasuredProfile> own_;
  bool is_judging_ = false;
};

}  // namespace lowgear::server
