#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
