#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "planning/planner/frontier/frontier_solver.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/policies/policy.h"
#include "rivals/policies/perseus/perseus_curve.h"

namespace lowgear::policies {

/// The planning problem as Perseus (Chung et al., SOSP'24) sees it: its exponential fit, on its grid of time units. The
/// frontier that its unit-by-unit search walks is the exact optimum of this problem, so here the exact solver finds it.
class PerseusModel {
 public:
  /// One row of the artifact's frontier file.
  struct Row {
    double time_s = 0;
    double energy_j = 0;
  };

  /// The curve of one stage and kind.
  struct OpCurve {
    int stage = 0;
    OpKind kind = OpKind::forward;
    PerseusCurve curve;
  };

  /// An optimal assignment of times.
  struct Solution {
    double time_s = 0;          ///< iteration time
    double energy_j = 0;        ///< fitted energy plus blocking energy
    std::vector<int> op_units;  ///< by op
  };

  /// A row of the frontier with its clocks, as the artifact's planner writes it into a plan file.
  struct RowPlan {
    std::size_t row = 0;  ///< of frontier()
    Row figures;
    double cost_change_j = 0;       ///< by the last unit of time that was saved
    double effective_energy_j = 0;  ///< without blocking
    std::vector<int> clocks_mhz;    ///< by op
  };

  /// The time unit is rounded to a picosecond: 1 ms by the artifact's default; its A40 results have 0.1 ms. The
  /// problem's `progress` must outlive this. Throws InputError when the unit is not within 1 ps and 10^6 s, the profile
  /// lacks an op, an op does not suit the unit (perseus_curve), or the initial guess lacks one or does not fit.
  PerseusModel(const planner::PlanningProblem& problem, const PerseusOptions& options);
  PerseusModel(const planner::PlanningProblem& problem, double unit_s)
      : PerseusModel(problem, PerseusOptions{.unit_s = unit_s, .noise = {}, .initial_guess = {}}) {}

  [[nodiscard]] double unit_s() const { return unit_s_; }
  /// Iteration time with every op at its fastest.
  [[nodiscard]] double fastest_s() const { return s_from_ps(fastest_ps_); }

  /// The whole frontier, slowest first, as the artifact writes it: one row per unit of iteration time, from one unit
  /// below the time of all ops at their slowest. Throws InputError beyond 10 million rows.
  [[nodiscard]] std::vector<Row> frontier() const;

  /// Hands the plans of these rows of frontier(), given in rising order, to `visit`: slowest first. Where several
  /// assignments are optimal, it may be another one than the artifact's planner finds, of the same energy.
  void visit_plans(std::span<const std::size_t> rows, const std::function<void(const RowPlan& plan)>& visit) const;

  /// The least energy in at most `deadline_s`: the frontier's point at the last unit before the deadline, or at the
  /// time of its least energy when that comes sooner. Throws InputError when the deadline is below fastest_s().
  [[nodiscard]] Solution solve(double deadline_s) const;

  /// Of every (stage, kind), in the order in which the schedule has them first.
  [[nodiscard]] const std::vector<OpCurve>& curves() const { return curves_; }

  /// How many (stage, kind) have the hull of their options in place of a fit (perseus_curve).
  [[nodiscard]] int unfitted_curves() const;

  /// Clock per op: the slowest option within the op's units.
  [[nodiscard]] std::vector<int> clocks_mhz(const Solution& solution) const;

 private:
  [[nodiscard]] const PerseusCurve& curve(std::size_t op) const;
  [[nodiscard]] std::vector<int> op_units(const planner::FrontierSolver& solver) const;
  /// One stretch of the walk; false where it ends.

  TimePs unit_ps_ = 0;
  double unit_s_ = 0;
  std::vector<OpCurve> curves_;  ///< one per cost of the instance
  planner::ProblemInstance instance_;
  TimePs fastest_ps_ = 0;
  Progress* progress_;
};

/// Plans with Perseus' model. `own_time_s` and `own_energy_j` are the model's own figures; because it rounds times
/// down to its unit, a replay takes up to 1 % longer. With a deadline: the model's plan at min(deadline, time of least
/// energy).
class PerseusPolicy final : public planner::Policy {
 public:
  explicit PerseusPolicy(PerseusOptions options = {}) : options_(std::move(options)) {}
  explicit PerseusPolicy(double unit_s) : options_{.unit_s = unit_s, .noise = {}, .initial_guess = {}} {}

  [[nodiscard]] std::string_view name() const override { return "perseus"; }
  [[nodiscard]] planner::PolicyPlan plan(const planner::PlanningProblem& problem,
                                         std::optional<double> deadline_s) const override;
  [[nodiscard]] std::vector<simulator::PipelineFigures> frontier(
      const planner::PlanningProblem& problem) const override;

 private:
  PerseusOptions options_;
};

/// The intrinsic saving of Perseus' evaluation (SOSP'24, table 6) in per cent: `energy_j` against every op at its
/// highest clock with the GPUs blocked for the rest of `time_s`, whatever time those clocks really need. For
/// comparison with its published figures only.
[[nodiscard]] double perseus_intrinsic_saving_pct(const planner::PlanningProblem& problem, double time_s,
                                                  double energy_j);

}  // namespace lowgear::policies
