#pragma once

#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/simulator/cluster.h"

namespace lowgear::workflow {

/// The vertices of a frontier, fastest first: seconds and joules of one iteration, one GPU a rank.
[[nodiscard]] std::vector<simulator::PipelineFigures> frontier_points(const planner::Frontier& frontier);

/// The proven lower bound at the same times; empty for an exact frontier, which is its own bound.
[[nodiscard]] std::vector<simulator::PipelineFigures> lower_bound_points(const planner::Frontier& frontier,
                                                                         planner::FrontierMethod method);

}  // namespace lowgear::workflow
