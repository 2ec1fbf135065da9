#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"
#include "protocol/rank_cells.h"
#include "server/job/baseline.h"
#include "server/job/plan_version.h"
#include "server/planning/planning_inputs.h"
#include "server/steering/clock_trials.h"

namespace lowgear::server {

/// The clocks that a job tries at present. One plan tries several clocks.
struct TrialRound {
  std::vector<int> wanted_mhz;
  int plan_version = 0;            ///< that tries them out
  std::int64_t end_iteration = 0;  ///< the first one after its trials
  double begun_s = 0;              ///< when it was issued
  int attempts = 0;                ///< how often the round has been begun
};

/// What the ranks of a job have measured: of the same stage, instruction and clock the newest counts.
class SweepCells {
 public:
  void put(const protocol::RankCells& cells);
  /// One entry for each rank.
  [[nodiscard]] std::vector<protocol::RankCells> all() const;
  [[nodiscard]] bool empty() const { return by_rank_.empty(); }
  /// How many clocks have been measured.
  [[nodiscard]] std::size_t clocks() const;
  /// Those of these clocks at which some instruction of some stage was measured on no rank, of those that were measured
  /// at all.
  [[nodiscard]] std::vector<int> missing(const std::vector<int>& clocks_mhz) const;

 private:
  std::map<int, protocol::RankCells> by_rank_;
};

/// The clocks that a job tries, and the measurements of its ranks so far.
class TrialSweep {
 public:
  /// None that was asked for: nothing counts.
  TrialSweep() = default;
  /// What was measured under plans before `first_version` (1 or more) belongs to an earlier sweep, and does not count.
  explicit TrialSweep(int first_version) : first_version_(first_version) {}
  [[nodiscard]] int first_version() const { return first_version_; }
  /// It was asked for, and no clock has been wanted yet.
  [[nodiscard]] bool is_new() const { return first_version_ > 0 && rounds_ == 0; }

  /// These clocks are to be measured now: another round.
  void want(std::vector<int> clocks_mhz);
  [[nodiscard]] int rounds() const { return rounds_; }
  /// Wanted clocks are being measured under this version of the plan, which was issued at `now_s` and tries them out
  /// before `end_iteration`.
  void begin(int plan_version, std::int64_t end_iteration, double now_s);
  /// The newest round.
  [[nodiscard]] const TrialRound& round() const { return round_; }
  /// The round that the sweep began with, or was continued with after the server had been started again; empty before.
  [[nodiscard]] const std::optional<TrialRound>& first_round() const { return first_round_; }

  /// What a rank has measured. What it had posted for the same version before stays. Returns whether it is new, and of
  /// this sweep.
  bool add(const protocol::RankCells& cells);
  [[nodiscard]] const SweepCells& measured() const { return measured_; }
  /// Neither has the rank posted under the version at hand, nor is it done without.
  [[nodiscard]] bool waits_for(int rank) const { return !posted_.contains(rank) && !absent_.contains(rank); }
  /// How many ranks need not be waited for.
  [[nodiscard]] std::size_t waited() const { return posted_.size() + absent_.size(); }
  /// The rank is not waited for until it posts again.
  void do_without(int rank) { absent_.insert(rank); }

 private:
  int first_version_ = 0;
  int rounds_ = 0;
  TrialRound round_;
  std::optional<TrialRound> first_round_;
  SweepCells measured_;
  std::set<int> posted_;
  std::set<int> absent_;
  std::set<std::pair<int, int>> seen_;  ///< (version, rank)
};

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
