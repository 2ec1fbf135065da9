#pragma once

#include <utility>

#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/generators.h"
#include "planning/workflow/profiled_pipeline.h"

namespace lowgear::workflow {

/// Three uneven stages under 1F1B that draw 80 W while they wait.
inline ProfiledPipeline sample_pipeline(int microbatches = 4) {
  ProfiledPipeline pipeline;
  pipeline.profile = planner::modelled_profile({0.050, 0.056, 0.052}, 1305);
  pipeline.schedule = schedule::one_f_one_b_schedule(3, microbatches);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.blocking_power_w = {80, 80, 80};
  return pipeline;
}

}  // namespace lowgear::workflow
