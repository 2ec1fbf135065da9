#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/planners/plan_library.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/rounding.h"

namespace lowgear::planner {

/// Finds clocks for deadlines: several roundings of the continuous optimum, mixtures of plans for other deadlines, and
/// trades between neighbours. The best is kept; how good it is, the frontier's bound says.
class DiscretePlanner {
 public:
  /// The arguments must outlive the planner; `work` may be null.
  DiscretePlanner(const PlanningModel& model, ContinuousSolver& solver, WorkReport* work = nullptr);

  /// Fills the library with plans for deadlines evenly over the frontier: more of them, the smaller the pipeline. Plans
  /// for single deadlines get better for it.
  void prepare(const Frontier& frontier);
  /// The same for a caller that plans for this deadline alone: plans are refined only near it, in a third of the time.
  void prepare_for(const Frontier& frontier, TimePs deadline_ps);

  /// A plan of at most this makespan, and of no more energy than any prepared one that is as fast. `deadline_ps` must
  /// be within [T_min, T*].
  [[nodiscard]] DiscretePlan plan(TimePs deadline_ps);

 private:
  /// Deadlines of the grid [begin, end), and those between them.
  struct Refined {
    TimePs begin = 0;
    TimePs end = 0;
  };
  /// What plans for one deadline start from.
  struct Draft {
    TimePs deadline_ps = 0;
    std::vector<std::int32_t> order;  ///< ops by their start in the continuous optimum
    DiscretePlan rounding;            ///< the best of all roundings
  };
  [[nodiscard]] DeadlineGrid grid_over(const Frontier& frontier) const;
  void fill(const Frontier& frontier, Refined refined);
  [[nodiscard]] Draft drafted(const ContinuousPlan& continuous, DiscretePlan rounding) const;
  [[nodiscard]] DiscretePlan plan(Draft draft);
  [[nodiscard]] DiscretePlan best_rounding(const ContinuousPlan& continuous);

  const PlanningModel* model_;
  ContinuousSolver* solver_;
  WorkReport* work_;
  Rounder rounder_;
  PlanLibrary library_;
};

}  // namespace lowgear::planner
