#pragma once

#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/generators.h"

namespace lowgear::api {

/// Four stages of the example's GPUs, at every fourth of their clocks.
inline profile::StageProfile small_profile() {
  profile::TransformerModel model;
  model.layers = 48;
  model.stages = 4;
  const profile::StageProfile all = modelled_profile(profile::ExampleGpu{}, model);
  profile::StageProfile some(4);
  for (int stage = 0; stage < 4; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const auto rows = all.measurements(stage, kind);
      for (std::size_t i = 0; i < rows.size() / 2; i += 4) some.add(stage, kind, rows[i]);
    }
  }
  return some;
}

inline const std::vector<double> kSmallBlockingW(4, 80.0);

inline schedule::Schedule small_schedule() { return schedule::one_f_one_b_schedule(4, 8); }

}  // namespace lowgear::api
