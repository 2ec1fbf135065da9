#pragma once

#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear {

/// The graph of 1F1B with one stage per rank.
inline PipelineDag pipeline(int stages, int microbatches) {
  return build_dag(one_f_one_b_schedule(stages, microbatches));
}

}  // namespace lowgear
