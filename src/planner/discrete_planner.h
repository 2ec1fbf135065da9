#pragma once

#include <cstddef>
#include <vector>

#include "core/progress.h"
#include "planner/frontier.h"
#include "planner/plan_library.h"
#include "planner/planning_model.h"
#include "planner/rounding.h"

namespace lowgear {

/// Finds clocks for deadlines: several roundings of the continuous optimum, mixtures of plans for other deadlines, and
/// trades between neighbours. The best is kept; how good it is, the frontier's bound says.
class DiscretePlanner {
 public:
  /// `model`, `solver` must outlive the planner.
  DiscretePlanner(const PlanningModel& model, ContinuousSolver& solver);

  /// Fills the library with plans for deadlines evenly over the frontier: more of them, the smaller the pipeline. Plans
  /// for single deadlines get better for it. `progress` may be null.
  void prepare(const Frontier& frontier, Progress* progress);

  /// A plan of at most this makespan, and of no more energy than any prepared one that is as fast. `deadline_ps` must
  /// be within [T_min, T*].
  [[nodiscard]] DiscretePlan plan(TimePs deadline_ps);

 private:
  [[nodiscard]] DiscretePlan best_rounding(const ContinuousPlan& continuous);

  const PlanningModel* model_;
  ContinuousSolver* solver_;
  Rounder rounder_;
  PlanLibrary library_;
};

}  // namespace lowgear
