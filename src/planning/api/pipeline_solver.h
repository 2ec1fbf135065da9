#pragma once

#include <memory>
#include <vector>

#include "base/core/progress.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::api {

/// Everything that the plans of Lowgear's planner for one pipeline depend on.
struct PipelineProblem {
  std::shared_ptr<const schedule::Schedule> schedule;
  profile::StageProfile profile;         ///< slow ranks included
  std::vector<double> blocking_power_w;  ///< by rank
  planner::PlannerOptions options = {};
};

/// A pipeline's frontier, and its plans. Its answers depend on its problem alone.
class SolvedPipeline {
 public:
  virtual ~SolvedPipeline() = default;
  [[nodiscard]] virtual const planner::Frontier& frontier() const = 0;
  /// Whether another plan takes milliseconds: the first one prepares those for all deadlines.
  [[nodiscard]] virtual bool is_prepared() const = 0;
  /// T_min, the least deadline that `plan` keeps.
  [[nodiscard]] virtual double fastest_s() const = 0;
  /// As `planner::PipelinePlanner::plan`. `progress` may be null; an exception of it ends this, and the next call does
  /// the work anew.
  [[nodiscard]] virtual plan::Plan plan(double deadline_s, Progress* progress) const = 0;
};

/// Solves pipelines, and may keep them: a server has one for all its jobs, a command for its own pipeline.
class PipelineSolver {
 public:
  using Solved = std::shared_ptr<const SolvedPipeline>;

  virtual ~PipelineSolver() = default;
  /// Null when the pipeline is not kept, or not solved yet.
  [[nodiscard]] virtual Solved find(const PipelineProblem& problem) = 0;
  /// Solves the pipeline now, unless it is kept. `progress` as in `SolvedPipeline`. Throws InputError when the profile
  /// lacks a cell of the schedule.
  [[nodiscard]] virtual Solved solve(const PipelineProblem& problem, Progress* progress) = 0;
};

}  // namespace lowgear::api
