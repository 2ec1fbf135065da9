#include "rivals/policies/perseus/perseus_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::policies {
namespace {

constexpr std::int64_t kMaxRows = 10'000'000;
constexpr std::string_view kActivity = "planning as Perseus";

/// How the curve of an op is made. Throws InputError where the guess has none for it.
CurveOptions curve_options(const PerseusOptions& options, const schedule::ComputeOp& op) {
  CurveOptions curve{.noise = options.noise, .start = {}};
  if (options.initial_guess.empty()) return curve;
  const auto start = options.initial_guess.find({op.stage, op.kind});
  if (start == options.initial_guess.end()) {
    throw InputError(
        fmt::format("perseus: the initial guess has no entry for the {} of stage {}", name(op.kind), op.stage));
  }
  curve.start = start->second;
  return curve;
}

bool can_be_shorter(planner::FrontierSolver& solver, PowerNw limit_nw = planner::FrontierSolver::kUnlimitedFlow) {
  return solver.saturate(limit_nw) == planner::FrontierSolver::Saturation::shorter_possible;
}

}  // namespace

PerseusModel::PerseusModel(const planner::PlanningProblem& problem, const PerseusOptions& options)
    : progress_(problem.progress) {
  const double unit_s = options.unit_s;
  if (!(unit_s >= 1 / kPsPerSecond && unit_s <= kMaxTimeS)) {
    throw InputError(fmt::format("perseus: a time unit of {} s; it must be within 1e-12 and 1e6 s", unit_s));
  }
  unit_ps_ = ps_from_s(unit_s);
  unit_s_ = s_from_ps(unit_ps_);
  instance_.edges = problem.dag->edges;
  instance_.topological_order = problem.dag->topological_order;
  for (const double power_w : problem.blocking_power_w) instance_.blocking_power_nw += nw_from_w(power_w);

  std::map<std::pair<int, OpKind>, int> cost_of_cell;
  std::vector<TimePs> fastest_ps;
  for (const schedule::ComputeOp& op : problem.dag->ops) {
    const auto [cell, added] = cost_of_cell.try_emplace({op.stage, op.kind}, static_cast<int>(curves_.size()));
    if (added) {
      if (progress_ != nullptr) progress_->update(kActivity, -1);  // a fit takes tens of milliseconds
      (void)problem.profile->at_max_clock(op.stage, op.kind);      // names what is missing
      curves_.push_back(
          {op.stage, op.kind,
           perseus_curve(problem.profile->measurements(op.stage, op.kind), unit_s_,
                         problem.blocking_power_w[static_cast<std::size_t>(op.rank)], curve_options(options, op))});
      instance_.costs.push_back(convex_cost(curves_.back().curve, unit_s_));
    }
    instance_.cost_of_op.push_back(cell->second);
    fastest_ps.push_back(instance_.costs[static_cast<std::size_t>(cell->second)].fastest_ps());
  }
  fastest_ps_ = makespan_ps(instance_, fastest_ps);
}

const PerseusCurve& PerseusModel::curve(std::size_t op) const {
  return curves_[static_cast<std::size_t>(instance_.cost_of_op[op])].curve;
}

std::vector<PerseusModel::Row> PerseusModel::frontier() const {
  planner::WorkReport work(progress_);
  work.begin(kActivity, -1);
  planner::FrontierSolver solver(instance_, &work);
  const TimePs row_count = (solver.time_ps() - fastest_ps_) / unit_ps_;
  if (row_count > kMaxRows) {
    throw InputError(
        fmt::format("perseus: the frontier has {} rows at a time unit of {} s, more than {}; choose a "
                    "larger unit",
                    row_count, unit_s_, kMaxRows));
  }
  const double blocking_power_w = w_from_nw(instance_.blocking_power_nw);
  std::vector<Row> rows;
  rows.reserve(static_cast<std::size_t>(row_count));
  while (solver.time_ps() > fastest_ps_ && can_be_shorter(solver)) {
    const TimePs from_ps = solver.time_ps();
    const double from_j = j_from_zj(solver.effective_energy_zj());
    solver.shorten(fastest_ps_);
    const double power_w = w_from_nw(solver.flow_value_nw());
    for (TimePs time_ps = from_ps - unit_ps_; time_ps >= solver.time_ps(); time_ps -= unit_ps_) {
      const double effective_j = from_j + power_w * s_from_ps(from_ps - time_ps);
      rows.push_back({s_from_ps(time_ps), effective_j + blocking_power_w * s_from_ps(time_ps)});
    }
  }
  return rows;
}

std::vector<int> PerseusModel::op_units(const planner::FrontierSolver& solver) const {
  // All breakpoints are whole units, and so are the optimal times at every vertex and at a deadline of whole units.
  std::vector<TimePs> time_ps(instance_.cost_of_op.size());
  solver.op_times(time_ps);
  std::vector<int> units;
  units.reserve(time_ps.size());
  for (const TimePs op_time_ps : time_ps) units.push_back(static_cast<int>(op_time_ps / unit_ps_));
  return units;
}

void PerseusModel::visit_plans(std::span<const std::size_t> rows,
                               const std::function<void(const RowPlan& plan)>& visit) const {
  planner::WorkReport work(progress_);
  work.begin(kActivity, -1);
  planner::FrontierSolver solver(instance_, &work);
  const TimePs slowest_ps = solver.time_ps();
  for (const std::size_t row : rows) {
    const TimePs time_ps = slowest_ps - static_cast<TimePs>(row + 1) * unit_ps_;
    while (solver.time_ps() > time_ps && can_be_shorter(solver)) {
      solver.shorten(time_ps);
    }
    if (solver.time_ps() > time_ps) throw InputError(fmt::format("perseus: the frontier has no row {}", row));
    const double time_s = s_from_ps(time_ps);
    const double effective_j = j_from_zj(solver.effective_energy_zj());
    visit({.row = row,
           .figures = {time_s, effective_j + w_from_nw(instance_.blocking_power_nw) * time_s},
           .cost_change_j = w_from_nw(solver.flow_value_nw()) * unit_s_,
           .effective_energy_j = effective_j,
           .clocks_mhz = clocks_mhz({.op_units = op_units(solver)})});
  }
}

PerseusModel::Solution PerseusModel::solve(double deadline_s) const {
  const TimePs deadline_ps = ps_from_s(std::min(deadline_s, kMaxTimeS)) / unit_ps_ * unit_ps_;
  if (!(deadline_s > 0) || deadline_ps < fastest_ps_) {
    throw InputError(
        fmt::format("perseus: no plan takes {} s or less; its fastest takes {} s", deadline_s, fastest_s()));
  }
  planner::WorkReport work(progress_);
  work.begin(kActivity, -1);
  planner::FrontierSolver solver(instance_, &work);
  while (solver.time_ps() > deadline_ps && can_be_shorter(solver)) {
    solver.shorten(deadline_ps);
  }
  // Faster than the deadline only while that saves at least as much blocking energy as it costs.
  const PowerNw blocking_power_nw = instance_.blocking_power_nw;
  while (solver.flow_value_nw() <= blocking_power_nw && can_be_shorter(solver, blocking_power_nw)) solver.shorten();

  Solution solution;
  solution.op_units = op_units(solver);
  solution.time_s = s_from_ps(solver.time_ps());
  solution.energy_j =
      j_from_zj(solver.effective_energy_zj()) + w_from_nw(instance_.blocking_power_nw) * solution.time_s;
  return solution;
}

int PerseusModel::unfitted_curves() const {
  return static_cast<int>(std::ranges::count_if(curves_, [](const OpCurve& op) { return !op.curve.fit; }));
}

std::vector<int> PerseusModel::clocks_mhz(const Solution& solution) const {
  std::vector<int> clocks;
  clocks.reserve(solution.op_units.size());
  for (std::size_t op = 0; op < solution.op_units.size(); ++op) {
    clocks.push_back(curve(op).clock_mhz(solution.op_units[op]));
  }
  return clocks;
}

planner::PolicyPlan PerseusPolicy::plan(const planner::PlanningProblem& problem,
                                        std::optional<double> deadline_s) const {
  const PerseusModel model(problem, options_);
  const PerseusModel::Solution solution = model.solve(deadline_s.value_or(model.fastest_s()));
  planner::PolicyPlan plan;
  plan.clocks_mhz = model.clocks_mhz(solution);
  plan.own_time_s = solution.time_s;
  plan.own_energy_j = solution.energy_j;
  plan.note = fmt::format("plans on fitted curves with times rounded down to {} ms", model.unit_s() * 1e3);
  if (const int unfitted = model.unfitted_curves(); unfitted > 0) {
    plan.note += fmt::format("; no fit for {} (stage, kind), their hull instead", unfitted);
  }
  return plan;
}

std::vector<simulator::PipelineFigures> PerseusPolicy::frontier(const planner::PlanningProblem& problem) const {
  std::vector<simulator::PipelineFigures> points;
  for (const PerseusModel::Row& row : PerseusModel(problem, options_).frontier()) {
    points.push_back({row.time_s, row.energy_j});
  }
  std::ranges::reverse(points);
  return points;
}

double perseus_intrinsic_saving_pct(const planner::PlanningProblem& problem, double time_s, double energy_j) {
  double baseline_j = 0;
  for (const double power_w : problem.blocking_power_w) baseline_j += power_w * time_s;
  for (const schedule::ComputeOp& op : problem.dag->ops) {
    const profile::Measurement& fastest = problem.profile->at_max_clock(op.stage, op.kind);
    baseline_j += fastest.energy_j - problem.blocking_power_w[static_cast<std::size_t>(op.rank)] * fastest.time_s;
  }
  return 100 * (1 - energy_j / baseline_j);
}

}  // namespace lowgear::policies
