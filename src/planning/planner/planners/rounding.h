#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

/// Times and energies of a model's choices, each in one array: rounding reads little else, and a `ClockChoice` with its
/// name takes a cache line.
class OptionTable {
 public:
  /// Copies what it needs.
  explicit OptionTable(const PlanningModel& model);

  /// Of an op's choices, fastest first.
  [[nodiscard]] std::span<const TimePs> times_ps(std::int32_t op) const {
    return std::span(time_ps_).subspan(place_[at(op)].begin, place_[at(op)].count);
  }
  [[nodiscard]] std::span<const EnergyZj> effective_energies_zj(std::int32_t op) const {
    return std::span(effective_energy_zj_).subspan(place_[at(op)].begin, place_[at(op)].count);
  }

  /// Of one choice.
  [[nodiscard]] TimePs time_ps(std::int32_t op, std::int32_t choice) const {
    return time_ps_[place_[at(op)].begin + at(choice)];
  }
  [[nodiscard]] EnergyZj effective_energy_zj(std::int32_t op, std::int32_t choice) const {
    return effective_energy_zj_[place_[at(op)].begin + at(choice)];
  }

 private:
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  std::vector<Place> place_;  ///< by op
  std::vector<TimePs> time_ps_;
  std::vector<EnergyZj> effective_energy_zj_;
};

/// One clock for every op.
struct DiscretePlan {
  std::vector<std::int32_t> choice;  ///< by op: index into the model's choices, fastest first
  TimePs makespan_ps = 0;
  EnergyZj effective_energy_zj = 0;

  /// Energy of the iteration, blocking energy included.
  [[nodiscard]] EnergyZj total_energy_zj(PowerNw blocking_power_nw) const {
    return effective_energy_zj + static_cast<EnergyZj>(blocking_power_nw) * makespan_ps;
  }
};

/// How a continuous solution is rounded to clocks.
struct RoundingRule {
  enum class Direction {
    forward,   ///< from the first op to the last: time that an op leaves over goes to those after it
    backward,  ///< from the last op to the first: it goes to those before it
  };
  Direction direction = Direction::forward;
  /// Each op takes the clock of least energy + price x time among those that fit, where the price is what the
  /// continuous solution says its time is worth, in sixteenths. 0: the slowest that fits. 16: the full price, so that
  /// only clocks on the convex hull are taken and left-over time is saved up for a whole step.
  int price_sixteenths = 0;
};

/// Turns continuous solutions into clocks that exist. Keeps work space: not for several threads at once.
class Rounder {
 public:
  /// Both arguments must outlive the rounder; `work` may be null.
  explicit Rounder(const PlanningModel& model, WorkReport* work = nullptr);

  /// Rounds so that the deadline holds, then hands out what time is left. The continuous solution must keep its
  /// deadline, so that each op's window holds at least its fastest clock.
  [[nodiscard]] DiscretePlan round(const ContinuousPlan& continuous, RoundingRule rule);

  /// Slows ops down, one after the other, as far as the deadline and the others' times allow: no op can be slowed any
  /// more afterwards. `choice` must keep the deadline. Fills in the plan's figures.
  [[nodiscard]] DiscretePlan reclaim_slack(std::vector<std::int32_t> choice, TimePs deadline_ps);

  /// Lets neighbours on a rank trade time: where a pair of clocks of less energy fits between what both wait for and
  /// what waits for them, it is taken. Finds what slowing single ops down cannot: one op a step faster, so that the
  /// next can be several steps slower. `plan` must keep the deadline, and does so afterwards.
  void trade_between_neighbours(DiscretePlan& plan, TimePs deadline_ps);

  /// Makespan of the given clocks.
  [[nodiscard]] TimePs makespan_ps(std::span<const std::int32_t> choice);

  [[nodiscard]] const PlanningModel& model() const { return *model_; }
  [[nodiscard]] const PrecedenceGraph& graph() const { return graph_; }

 private:
  [[nodiscard]] std::int32_t cheapest_within(std::int32_t op, TimePs window_ps, PowerNw price_nw) const;
  [[nodiscard]] TimePs earliest_start_ps(std::int32_t op) const;
  [[nodiscard]] TimePs latest_finish_ps(std::int32_t op, TimePs deadline_ps) const;
  void slow_down_within(std::int32_t op, TimePs window_ps, std::vector<std::int32_t>& choice) const;

  /// The time that two neighbouring ops of a rank may use while all others stay.
  struct PairWindow {
    TimePs first_start_ps = 0;    ///< earliest
    TimePs first_finish_ps = 0;   ///< latest that those allow, apart from the second op, that wait for the first
    TimePs second_start_ps = 0;   ///< earliest that those allow, apart from the first op, that the second waits for
    TimePs second_finish_ps = 0;  ///< latest
  };
  /// Clocks for both, and their saving.
  struct PairChoice {
    EnergyZj saved_zj = 0;
    std::int32_t first = 0;
    std::int32_t second = 0;
  };
  [[nodiscard]] PairWindow pair_window(std::int32_t first, std::int32_t second, TimePs deadline_ps) const;
  [[nodiscard]] PairChoice best_pair(std::int32_t first, std::int32_t second, const PairWindow& window,
                                     std::span<const std::int32_t> choice) const;
  void find_latest_finishes(std::span<const std::int32_t> choice, TimePs deadline_ps);
  [[nodiscard]] bool bring_finishes_up_to_date(std::span<const std::int32_t> changed,
                                               std::span<const std::int32_t> choice, TimePs deadline_ps);
  void bring_latest_finishes_up_to_date(std::span<const std::int32_t> changed, std::span<const std::int32_t> choice,
                                        TimePs deadline_ps);
  void mark(std::int32_t op);

  void report_visits() const;

  const PlanningModel* model_;
  WorkReport* work_;
  PrecedenceGraph graph_;
  OptionTable options_;
  std::vector<TimePs> finish_ps_;           ///< by op: earliest, with the present clocks
  std::vector<TimePs> latest_finish_ps_;    ///< by op: with the present clocks
  std::vector<TimePs> latest_start_ps_;     ///< by op: the same, less the op's own time
  std::vector<std::int32_t> next_on_rank_;  ///< by op: -1 for the last one of a rank
  std::vector<std::size_t> position_;       ///< by op: in the graph's order
  std::vector<char> marked_;                ///< by op: its finish is to be looked at again; all 0 between calls
  std::size_t marks_ = 0;                   ///< ops that are marked
  std::vector<std::pair<std::int32_t, TimePs>> finishes_before_;  ///< what an update changed; kept for its memory
};

}  // namespace lowgear::planner
