#pragma once

#include <vector>

#include "base/core/units.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/cluster.h"

namespace lowgear::joint {

/// Least energy of one order against the iteration time, with continuous clocks: between achievable points, so nowhere
/// below what the order can reach.
struct OrderCurve {
  std::vector<simulator::PipelineFigures> points;  ///< fastest first, from the order's T_min to its T*; never empty

  [[nodiscard]] double fastest_s() const { return points.front().time_s; }
  [[nodiscard]] double slowest_s() const { return points.back().time_s; }
  /// Energy of an iteration of at most this time; infinite before T_min.
  [[nodiscard]] double energy_j_at(double time_s) const;
};

/// An order's optimum for one deadline, with continuous clocks.
struct OrderSolution {
  schedule::PipelineDag dag;
  double energy_j = 0;                ///< infinite when the order cannot keep the deadline; nothing below is set then
  std::vector<TimePs> op_time_ps;     ///< by op
  std::vector<PowerNw> edge_flow_nw;  ///< by edge of the graph: what relaxing it is worth
};

/// Rates orders of one problem. Slopes are rounded as the sandwich rounds them, which takes a fraction of the exact
/// frontier's time; energies are those of the rounded optimum's times in the exact curves, so that they are achievable.
/// The same order gives the same rating.
class OrderRater {
 public:
  /// Both must outlive the rater. `work` may be null; calls throw what it throws.
  explicit OrderRater(const JointProblem& problem, planner::WorkReport* work = nullptr)
      : problem_(&problem), work_(work) {}

  /// The curve from T_min, or from `from_s` where that is later, to T*.
  [[nodiscard]] OrderCurve rate(const schedule::Schedule& order, double from_s = 0) const;
  [[nodiscard]] OrderSolution solve(const schedule::Schedule& order, double deadline_s) const;

 private:
  const JointProblem* problem_;
  planner::WorkReport* work_;
};

}  // namespace lowgear::joint
