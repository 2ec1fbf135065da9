#pragma once

#include <random>
#include <vector>

#include "planning/planner/planners/planning_model.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::planner {

/// A profiled pipeline on a schedule.
struct SamplePipeline {
  schedule::Schedule schedule;
  schedule::PipelineDag dag;
  profile::StageProfile profile;
  std::vector<double> blocking_power_w;  ///< by rank

  [[nodiscard]] PlanningModel model() const { return make_planning_model(dag, profile, blocking_power_w); }
};

struct RandomPipelineLimits {
  int max_ranks = 5;
  int max_microbatches = 12;
  int max_clocks = 25;
  bool split_backward = true;  ///< also schedules that take it, or recompute
};

/// A pipeline on GPipe, 1F1B, interleaved 1F1B, ZB-H1 or one of Merak's schedules, with profiles of all the kinds that
/// are measured: smooth, noisy (lower clocks that are faster or take more energy), in round numbers (so that solutions
/// lie on lines), ops with one clock, and ops that no clock makes slower.
[[nodiscard]] SamplePipeline random_pipeline(std::mt19937_64& random, const RandomPipelineLimits& limits = {});

}  // namespace lowgear::planner
