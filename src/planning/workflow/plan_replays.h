#pragma once

#include <optional>

#include "planning/simulator/cluster.h"
#include "planning/workflow/profiled_pipeline.h"
#include "planning/workflow/replayed_plan.h"

namespace lowgear::workflow {

/// What to replay a plan under.
struct ReplayRequest {
  ReplayConditions conditions = {};
  std::optional<double> late_s = {};         ///< also with this switch latency
  int pipelines = 1;                         ///< that wait for each other; clocks of a cluster change at once
  std::optional<double> slow_pipeline = {};  ///< one of them takes so many times as long
};

/// One iteration of a plan, replayed as it was asked for.
struct PlanReplays {
  simulator::Timeline timeline;
  std::optional<simulator::PipelineFigures> unslowed;  ///< without the slowdowns, where there are any
  std::optional<simulator::PipelineFigures> late;
  std::optional<simulator::ClusterTimeline> cluster;
};

/// Replays a plan, given by the clock and setting of every op. Throws as `replay_under` and `replay_cluster` do.
[[nodiscard]] PlanReplays replay_plan(const ProfiledPipeline& pipeline, const plan::OpChoicesView& choices,
                                      const ReplayRequest& request);

}  // namespace lowgear::workflow
