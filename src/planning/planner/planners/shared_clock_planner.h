#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/rounding.h"

namespace lowgear::planner {

/// Groups of ops that have to share a clock and a setting, because switching between microbatches takes too long or is
/// not wanted.
struct ClockGroups {
  std::vector<std::int32_t> group_of_op;
  std::int32_t count = 0;
};

/// All ops of one (virtual stage, kind) together: at most two switches a microbatch.
[[nodiscard]] ClockGroups groups_by_stage_and_kind(const PlanningModel& model);
/// All ops of a rank together: no switches.
[[nodiscard]] ClockGroups groups_by_rank(const schedule::PipelineDag& dag);

/// Plans one clock per group. Not exact (a discrete problem in as many variables as groups): prices from the continuous
/// optimum choose one start, one clock a rank, as fast as the slowest rank, another; single steps and exchanges of
/// steps improve both. The frontier's bound says how good the better one is.
class SharedClockPlanner {
 public:
  /// Offers each group the clocks, each with a setting, that are Pareto options of all its ops. `model` and `work`,
  /// which may be null, must outlive the planner.
  SharedClockPlanner(const PlanningModel& model, ClockGroups groups, WorkReport* work = nullptr);

  /// A plan of at most the continuous plan's deadline; none when even the fastest clocks of all groups take longer.
  [[nodiscard]] std::optional<DiscretePlan> plan(const ContinuousPlan& continuous);

 private:
  struct Step {
    int clock_mhz = 0;
    std::vector<std::int32_t> choice_of_cost;  ///< by cost of the model; -1 where the group has no such ops
    double effective_energy_j = 0;             ///< of all ops of the group
    double time_s = 0;                         ///< of all ops of the group
  };
  struct Group {
    std::vector<std::int32_t> ops;
    std::vector<Step> steps;  ///< fastest first, energy falling

    /// The fastest step of at most that clock; the last one where there is none.
    [[nodiscard]] std::size_t step_at(int clock_mhz) const {
      const auto step = std::ranges::find_if(steps, [=](const Step& one) { return one.clock_mhz <= clock_mhz; });
      return std::min(static_cast<std::size_t>(step - steps.begin()), steps.size() - 1);
    }
  };
  using Position = std::vector<std::size_t>;  ///< by group: index into its steps

  void collect_steps(Group& group);
  [[nodiscard]] Position start_by_price(const ContinuousPlan& continuous);
  [[nodiscard]] Position start_evenly(TimePs deadline_ps);
  template <typename PositionAt>
  [[nodiscard]] Position slowest_start(const PositionAt& position_at, double fast, double slow, TimePs deadline_ps);
  [[nodiscard]] Position improved(Position position, TimePs deadline_ps);
  [[nodiscard]] std::vector<double> group_prices(const ContinuousPlan& continuous) const;
  [[nodiscard]] std::vector<std::int32_t> choices(const Position& position) const;
  [[nodiscard]] bool keeps(const Position& position, TimePs deadline_ps);
  [[nodiscard]] double energy_j(const Position& position) const;
  void slow_down(Position& position, TimePs deadline_ps);
  void exchange(Position& position, TimePs deadline_ps);

  const PlanningModel* model_;
  Rounder rounder_;
  std::vector<Group> groups_;
};

}  // namespace lowgear::planner
