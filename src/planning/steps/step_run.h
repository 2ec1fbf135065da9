#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/steps/step_input.h"
#include "planning/steps/step_planner.h"

namespace lowgear::steps {

/// Which replica runs which microbatch.
enum class Deal : unsigned char { given, balanced };
inline constexpr std::array<Deal, 2> kDeals{Deal::given, Deal::balanced};
/// `given`, `balanced`.
[[nodiscard]] std::string_view name(Deal deal);
[[nodiscard]] constexpr std::size_t place(Deal deal) { return deal == Deal::given ? 0 : 1; }

/// A microbatch as the loader dealt it.
struct Origin {
  int replica = 0;
  int microbatch = 0;

  friend auto operator<=>(const Origin&, const Origin&) = default;
};

/// All replicas in one step, from its begin to the sum of gradients.
struct StepFigures {
  double time_s = 0;     ///< of the longest replica
  double energy_j = 0;   ///< of all GPUs, one a rank, waiting included
  double waiting = 0;    ///< share of all GPUs' time in which they wait
  double clock_mhz = 0;  ///< mean over the time of ops
};

/// A step at full clocks and with its plan.
struct StepPair {
  StepFigures full_clocks;
  StepFigures plan;
};

/// A step in one deal.
struct PlannedDeal {
  std::vector<std::vector<Origin>> origins;              ///< by replica, and microbatch of the schedule
  std::vector<std::vector<double>> predicted_s;          ///< at full clocks, by replica and op
  std::vector<std::vector<double>> recorded_s;           ///< the same; empty: not recorded
  std::vector<std::vector<double>> predicted_busy = {};  ///< as `StepUnits` has it
  std::vector<std::vector<double>> recorded_busy = {};
  std::vector<std::vector<int>> clocks_mhz;  ///< by replica and op
  std::vector<ReplicaBound> bounds;          ///< by replica, for the time of full clocks
  double bound_j = 0;  ///< no plan that keeps the time of full clocks and ends as this one does uses less
  StepPair predicted;
  std::optional<StepPair> recorded = {};  ///< replayed with `recorded_s`
  double planning_s = 0;                  ///< time that choosing clocks took; 0 without a clock
};

struct PlannedStep {
  int number = 0;
  bool fitted = false;
  std::string fault = {};           ///< why it runs at full clocks as dealt; then it has no deals
  std::vector<PlannedDeal> deals;   ///< by `place`
  std::vector<StepPair> safe = {};  ///< of a step with a fault, where it is recorded: by `place`, replayed
  bool replayed_by_fit = false;     ///< as `StepUnits` has it
  std::string not_replayed = {};    ///< as `StepUnits` has it
};

struct StepRunOptions {
  ClocksPer clocks_per = ClocksPer::unit;
  double late_by_s = 0;
  /// Share of steps that may take more than kLate longer than at full clocks.
  double late_share = 0.1;
  TaskRunner runner = {};  ///< empty: one thread
  std::size_t threads = 1;
  SecondsClock clock = {};  ///< for `planning_s`; may be empty
};

/// A step is late that takes this share longer than at full clocks.
inline constexpr double kLate = 0.005;
/// Largest margin that is tried.
inline constexpr double kMaxMargin = 0.08;

/// Those by which a step is replayed are recorded, or the model's for its own amounts (`replayed_by_fit`).
enum class Times : unsigned char { predicted, recorded, by_fit, replayed };

struct StepRun {
  /// The given one alone where one replica has nothing to balance, or amounts are not known when it is dealt.
  std::span<const Deal> deals = kDeals;
  std::array<double, 2> margins{};       ///< by `place`: by what share units are taken to be slower than predicted
  std::array<bool, 2> keeps_lateness{};  ///< by `place`: whether a margin up to kMaxMargin is enough
  std::vector<PlannedStep> steps;
};

/// Deals microbatches anew: longest first, each to the replica that would end first with it, as many to each as before.
/// `load_s` is a microbatch's time over all stages at full clocks on a usual
/// replica, by origin replica and microbatch; `slowness` by what each replica's workers multiply it.
[[nodiscard]] std::vector<std::vector<Origin>> balanced_deal(const std::vector<std::vector<double>>& load_s,
                                                             std::span<const double> slowness);

/// Plans every step as dealt, and where several deals are possible (`StepRun::deals`) balanced, too. A balanced replica
/// runs its microbatches longest first, or long and short ones in turns where no rank may hold more tokens at once than
/// one does as dealt (of replicas; times stand for tokens that are not stated); a step where neither order keeps to
/// that stays as dealt. The margin is the least with which, of the last 32 fitted steps, no more than `late_share` are
/// late when they are replayed with their recorded times (0 where none are recorded); where kMaxMargin is not enough,
/// that or 0, whichever leaves fewer late. `progress` is told of every step.
[[nodiscard]] StepRun plan_steps(const PredictedSteps& predicted, const schedule::PipelineDag& dag,
                                 const profile::StageProfile& profile, std::span<const double> blocking_power_w,
                                 const StepRunOptions& options, Progress& progress);

/// Figures of a step in one deal; null where it has none with such times, or a fault leaves it unpredicted.
[[nodiscard]] const StepPair* figures(const PlannedStep& step, Deal deal, Times times);

/// Sums over steps of one deal that have such figures.
struct StepTotals {
  int steps = 0;
  int safe_steps = 0;        ///< of them, those at full clocks for a fault
  int late_steps = 0;        ///< of them, those later than kLate
  StepPair sums;             ///< `waiting` and `clock_mhz` are means over steps
  double bound_j = 0;        ///< with predicted times, where there are such
  double bound_full_j = 0;   ///< what full clocks use with the times of `bound_j`
  double mean_lateness = 0;  ///< mean over steps of time / time of full clocks - 1, where that is above 0
  double late_share = 0;     ///< `late_steps` of `steps`
};
enum class Which : unsigned char { all, fitted, held_out };
[[nodiscard]] StepTotals totals(const StepRun& run, Deal deal, Times times, Which which = Which::all);

}  // namespace lowgear::steps
