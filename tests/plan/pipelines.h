#pragma once

#include <algorithm>
#include <vector>

#include "schedule/dag.h"
#include "schedule/schedule.h"

namespace lowgear {

/// 1F1B with one stage per rank.
inline Schedule one_forward_one_backward(int stages, int microbatches) {
  Schedule schedule{"1f1b", stages, microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Action> actions;
    int forwards = 0;
    int backwards = 0;
    const auto run = [&](OpKind kind, int& microbatch) {
      actions.push_back({ActionKind::compute, kind, stage, microbatch++});
    };
    while (forwards < std::min(stages - stage, microbatches)) {
      run(OpKind::forward, forwards);
    }
    while (backwards < microbatches) {
      run(OpKind::backward, backwards);
      if (forwards < microbatches) {
        run(OpKind::forward, forwards);
      }
    }
    schedule.ranks.push_back(actions);
  }
  return schedule;
}

inline PipelineDag pipeline(int stages, int microbatches) {
  return build_dag(one_forward_one_backward(stages, microbatches));
}

}  // namespace lowgear
