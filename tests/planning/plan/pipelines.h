#pragma once

#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::plan {

/// The graph of 1F1B with one stage per rank.
inline schedule::PipelineDag pipeline(int stages, int microbatches) {
  return schedule::build_dag(schedule::one_f_one_b_schedule(stages, microbatches));
}

}  // namespace lowgear::plan
