#include "planning/joint/orders/order_rater.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/frontier_solver.h"
#include "planning/planner/frontier/sandwich.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::joint {
namespace {

using planner::FrontierSolver;
using planner::ProblemInstance;

/// Slopes are rounded to a quarter and at least 1 W: energies of optima move by some 0.01 %, and the walk has a tenth
/// of the vertices.
constexpr planner::SlopeRounding kRounding{.quantum_nw = 1'000'000'000, .divisor = 4};

/// A walk along the rounded frontier that is valued in the exact curves.
class RatingWalk {
 public:
  RatingWalk(const ProblemInstance& exact, planner::WorkReport* work)
      : exact_(&exact), rounded_(with_rounded_slopes(exact, kRounding)), solver_(rounded_, work) {
    while (solver_.saturate(exact.blocking_power_nw) == FrontierSolver::Saturation::shorter_possible) solver_.shorten();
  }

  [[nodiscard]] TimePs time_ps() const { return solver_.time_ps(); }
  /// Whether a faster place was there to go to: the next vertex, or `floor_ps`.
  bool advance(TimePs floor_ps) {
    if (solver_.time_ps() <= floor_ps) return false;
    if (solver_.saturate() != FrontierSolver::Saturation::shorter_possible) return false;
    solver_.shorten(floor_ps);
    return true;
  }

  [[nodiscard]] std::vector<TimePs> op_times() const {
    std::vector<TimePs> times_ps(static_cast<std::size_t>(exact_->op_count()));
    solver_.op_times(times_ps);
    return times_ps;
  }

  [[nodiscard]] simulator::PipelineFigures figures() const {
    const EnergyZj effective_zj = effective_energy_zj(*exact_, op_times());
    const EnergyZj blocked_zj = static_cast<EnergyZj>(exact_->blocking_power_nw) * time_ps();
    return {s_from_ps(time_ps()), j_from_zj(effective_zj + blocked_zj)};
  }

  [[nodiscard]] std::span<const PowerNw> edge_flow_nw() const { return solver_.edge_flow_nw(); }

 private:
  const ProblemInstance* exact_;
  ProblemInstance rounded_;
  FrontierSolver solver_;
};

}  // namespace

double OrderCurve::energy_j_at(double time_s) const {
  constexpr double kRounding = 1e-12;  // relative, of times written in seconds
  if (time_s < fastest_s() * (1 - kRounding)) return std::numeric_limits<double>::infinity();
  const auto slower = std::ranges::lower_bound(points, time_s, {}, &simulator::PipelineFigures::time_s);
  if (slower == points.end()) return points.back().energy_j;
  if (slower == points.begin()) return points.front().energy_j;
  const simulator::PipelineFigures& fast = *std::prev(slower);
  const double share = (time_s - fast.time_s) / (slower->time_s - fast.time_s);
  return fast.energy_j + share * (slower->energy_j - fast.energy_j);
}

OrderCurve OrderRater::rate(const schedule::Schedule& order, double from_s) const {
  const schedule::PipelineDag dag = build_dag(order);
  const planner::PlanningModel model =
      planner::make_planning_model(dag, problem_->profile_of(order), problem_->blocking_power_w);
  RatingWalk walk(model.instance, work_);
  OrderCurve curve;
  TimePs valued_ps = 0;
  const auto value = [&] {
    const simulator::PipelineFigures point = walk.figures();
    // What uses more time and energy than a faster vertex is no use; rounding makes such vertices near T*.
    while (!curve.points.empty() && curve.points.back().energy_j >= point.energy_j) curve.points.pop_back();
    curve.points.push_back(point);
    valued_ps = walk.time_ps();
  };
  value();
  while (walk.advance(ps_from_s(from_s))) {
    // To value a solution takes as long as to find it, and near neighbours on a convex curve say little more.
    constexpr double kLeastStep = 1e-3;
    const auto step_ps = static_cast<double>(valued_ps - walk.time_ps());
    if (step_ps >= kLeastStep * static_cast<double>(valued_ps)) value();
  }
  if (walk.time_ps() != valued_ps) value();
  std::ranges::reverse(curve.points);
  return curve;
}

OrderSolution OrderRater::solve(const schedule::Schedule& order, double deadline_s) const {
  OrderSolution solution;
  solution.dag = build_dag(order);
  const planner::PlanningModel model =
      planner::make_planning_model(solution.dag, problem_->profile_of(order), problem_->blocking_power_w);
  RatingWalk walk(model.instance, work_);
  const TimePs deadline_ps = ps_from_s(deadline_s);
  while (walk.advance(deadline_ps)) continue;
  if (walk.time_ps() > deadline_ps) {
    solution.energy_j = std::numeric_limits<double>::infinity();
    return solution;
  }
  solution.energy_j = walk.figures().energy_j;
  solution.op_time_ps = walk.op_times();
  solution.edge_flow_nw.assign(walk.edge_flow_nw().begin(), walk.edge_flow_nw().end());
  return solution;
}

}  // namespace lowgear::joint
