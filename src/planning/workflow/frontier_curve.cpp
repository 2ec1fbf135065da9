#include "planning/workflow/frontier_curve.h"

namespace lowgear::workflow {

std::vector<simulator::PipelineFigures> frontier_points(const planner::Frontier& frontier) {
  std::vector<simulator::PipelineFigures> points;
  points.reserve(frontier.vertices().size());
  for (const planner::FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.energy_j(vertex)});
  }
  return points;
}

std::vector<simulator::PipelineFigures> lower_bound_points(const planner::Frontier& frontier,
                                                           planner::FrontierMethod method) {
  std::vector<simulator::PipelineFigures> points;
  if (method == planner::FrontierMethod::exact) return points;
  for (const planner::FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.lower_bound_j_at(vertex.time_ps)});
  }
  return points;
}

}  // namespace lowgear::workflow
