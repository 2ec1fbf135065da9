#include "planning/workflow/frontier_curve.h"

namespace lowgear {

std::vector<PipelineFigures> frontier_points(const Frontier& frontier) {
  std::vector<PipelineFigures> points;
  points.reserve(frontier.vertices().size());
  for (const FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.energy_j(vertex)});
  }
  return points;
}

std::vector<PipelineFigures> lower_bound_points(const Frontier& frontier, FrontierMethod method) {
  std::vector<PipelineFigures> points;
  if (method == FrontierMethod::exact) return points;
  for (const FrontierVertex& vertex : frontier.vertices()) {
    points.push_back({s_from_ps(vertex.time_ps), frontier.lower_bound_j_at(vertex.time_ps)});
  }
  return points;
}

}  // namespace lowgear
