#pragma once

#include "planning/api/profiled_pipeline.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/generators.h"

namespace lowgear::api {

/// Three uneven stages under 1F1B that draw 80 W while they wait.
inline ProfiledPipeline sample_pipeline(int microbatches = 4) {
  ProfiledPipeline pipeline;
  pipeline.profile = planner::modelled_profile({0.050, 0.056, 0.052}, 1305);
  pipeline.schedule = schedule::one_f_one_b_schedule(3, microbatches);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.blocking_power_w = {80, 80, 80};
  return pipeline;
}

/// A profile in which the second clock of every op is faster than the highest, as by a wrong row.
inline profile::StageProfile with_faster_second_clock(const profile::StageProfile& profile) {
  profile::StageProfile result(profile.stages());
  for (const profile::StageOp& op : profile.ops()) {
    for (std::size_t i = 0; i < op.measurements.size(); ++i) {
      profile::Measurement row = op.measurements[i];
      if (i == 1) row.time_s *= 0.9;
      result.add(op.stage, op.kind, row);
    }
  }
  return result;
}

}  // namespace lowgear::api
