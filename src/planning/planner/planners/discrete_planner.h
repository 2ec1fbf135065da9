#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/rounding.h"

namespace lowgear::planner {

/// Discrete plans of one pipeline that no mixture of others beats: the lower convex hull of (makespan, energy).
///
/// A good plan for a deadline between two of them is one plan up to a moment of the iteration and the other from there
/// on. That matters where the clocks that exist are far apart: rounding each op for itself then loses per cents,
/// because ops that wait for each other every microbatch cannot save time up until it is enough for a whole step, while
/// two stretches of the iteration can each run at a rhythm that fits existing clocks exactly.
class PlanLibrary {
 public:
  explicit PlanLibrary(PowerNw blocking_power_nw) : blocking_power_nw_(blocking_power_nw) {}

  /// Adds a plan unless others beat it.
  void add(DiscretePlan plan);
  /// Fastest first; makespans rise and energies fall.
  [[nodiscard]] std::span<const DiscretePlan> plans() const { return plans_; }

  /// The plan of least energy among those of at most this makespan; null when there is none. Valid until the next
  /// `add`.
  [[nodiscard]] const DiscretePlan* best_within(TimePs deadline_ps) const;

  /// Plans for a deadline, each made of one plan that keeps it and one that does not: the slow one's clocks for as many
  /// ops as the deadline allows, counted from the start of the iteration and from its end. Tries the `reach` nearest
  /// plans on either side. `order` holds the ops in the order in which they run, each after all that it waits for.
  /// Returns the best; none when the deadline is outside the library.
  [[nodiscard]] std::optional<DiscretePlan> splice(Rounder& rounder, std::span<const std::int32_t> order,
                                                   TimePs deadline_ps, std::size_t reach) const;

 private:
  using Position = std::vector<DiscretePlan>::const_iterator;
  [[nodiscard]] Position first_slower_than(TimePs deadline_ps) const;

  PowerNw blocking_power_nw_;
  std::vector<DiscretePlan> plans_;
};

/// Makespans of a pipeline that takes one plan's clocks for the first ops of an order and another plan's for the rest,
/// for any number of first ops: two sweeps over all ops in the beginning, then a look at the edges across the split.
class SplitPlan {
 public:
  /// `first` and `rest`: by op, index into the model's choices. `order` must have each op after all that it waits for.
  /// The graph is of the model's instance and must outlive this.
  SplitPlan(const PlanningModel& model, const PrecedenceGraph& graph, std::span<const std::int32_t> order,
            std::span<const std::int32_t> first, std::span<const std::int32_t> rest);

  /// With the first plan's clocks for `count` (0 to all) ops of the order.
  [[nodiscard]] TimePs makespan_ps(std::size_t count) const;

 private:
  void sweep_forwards(const PlanningModel& model, std::span<const std::int32_t> first);
  void sweep_backwards(const PlanningModel& model, std::span<const std::int32_t> rest);

  const PrecedenceGraph* graph_;
  std::span<const std::int32_t> order_;
  std::vector<std::size_t> position_;  ///< by op: in the order
  std::vector<TimePs> finish_ps_;      ///< by op: earliest, with the first plan's clocks
  std::vector<TimePs> tail_ps_;        ///< by op: from its start to the end, with the rest's clocks
  std::vector<TimePs> first_ps_;       ///< by count: makespan of the first ops alone
  std::vector<TimePs> rest_ps_;        ///< by count: makespan of the rest alone
  std::size_t widest_ = 0;             ///< farthest that an edge reaches in the order
};

/// Finds clocks for deadlines: several roundings of the continuous optimum, mixtures of plans for other deadlines, and
/// trades between neighbours. The best is kept; how good it is, the frontier's bound says.
class DiscretePlanner {
 public:
  /// The arguments must outlive the planner; `work` may be null.
  DiscretePlanner(const PlanningModel& model, ContinuousSolver& solver, WorkReport* work = nullptr);

  /// Rounds plans for deadlines evenly over the frontier: more of them, the smaller the pipeline. Plans for single
  /// deadlines get better for it.
  void prepare(const Frontier& frontier);

  /// A plan of at most this makespan, and of no more energy than any prepared one that is as fast. `deadline_ps` must
  /// be within [T_min, T*]. It depends on the deadline alone, not on those that were planned for before: the plans that
  /// it is mixed from are those near it, and each of them depends on its own place in the grid alone.
  [[nodiscard]] DiscretePlan plan(TimePs deadline_ps);

 private:
  /// What plans for one deadline start from.
  struct Draft {
    TimePs deadline_ps = 0;
    std::vector<std::int32_t> order;  ///< ops by their start in the continuous optimum
    DiscretePlan rounding;            ///< the best of all roundings
  };
  [[nodiscard]] DeadlineGrid grid_over(const Frontier& frontier) const;
  [[nodiscard]] Draft drafted(const ContinuousPlan& continuous, DiscretePlan rounding) const;
  [[nodiscard]] DiscretePlan plan(Draft draft, const PlanLibrary& library);
  /// At a place of the grid, mixed from roundings; and halfway to the next one, mixed from roundings and such mixtures.
  [[nodiscard]] const DiscretePlan& mixture_at(TimePs place);
  [[nodiscard]] const DiscretePlan& mixture_after(TimePs place);
  /// The roundings, and what refines them near a place.
  [[nodiscard]] PlanLibrary library_near(TimePs place);
  void add_mixtures(PlanLibrary& library, TimePs place, TimePs reach);
  [[nodiscard]] DiscretePlan best_rounding(const ContinuousPlan& continuous);

  const PlanningModel* model_;
  ContinuousSolver* solver_;
  WorkReport* work_;
  Rounder rounder_;
  DeadlineGrid grid_;
  PlanLibrary roundings_;
  std::vector<Draft> drafts_;                                ///< by place; empty where nothing is refined
  std::vector<std::optional<DiscretePlan>> mixtures_at_;     ///< by place, as far as they were needed
  std::vector<std::optional<DiscretePlan>> mixtures_after_;  ///< likewise
};

}  // namespace lowgear::planner
