#include "planning/steps/step_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/frontier_solver.h"
#include "planning/planner/planners/latency_planner.h"
#include "planning/planner/planners/rounding.h"
#include "planning/profile/options.h"

namespace lowgear::steps {

namespace {

/// A deadline counts as kept within this share of it: the solver rounds times up to the picosecond.
constexpr double kRounding = 1e-10;
/// Tries to make up for clocks that change late.
constexpr int kTighterDeadlines = 4;

constexpr auto kRoundings = std::to_array<planner::RoundingRule>({
    {planner::RoundingRule::Direction::forward, 0},
    {planner::RoundingRule::Direction::forward, 13},
    {planner::RoundingRule::Direction::forward, 16},
    {planner::RoundingRule::Direction::backward, 0},
    {planner::RoundingRule::Direction::backward, 13},
    {planner::RoundingRule::Direction::backward, 16},
});

double busy_of(std::span<const double> busy, std::size_t op) { return busy.empty() ? 1 : busy[op]; }

/// A cost of `work` times the length, of which the energy counts for the share `busy`.
planner::ConvexCost scaled(const planner::ConvexCost& unit, double work, double busy) {
  planner::ConvexCost cost;
  cost.energy_at_fastest_zj = static_cast<EnergyZj>(static_cast<double>(unit.energy_at_fastest_zj) * work * busy);
  for (std::size_t j = 0; j < unit.time_ps.size(); ++j) {
    const TimePs time_ps = ps_not_below_s(s_from_ps(unit.time_ps[j]) * work);
    if (j > 0) {
      if (time_ps <= cost.time_ps.back()) continue;  // picoseconds apart
      cost.slope_nw.push_back(std::llround(static_cast<double>(unit.slope_nw[j - 1]) * busy));
    }
    cost.time_ps.push_back(time_ps);
  }
  return cost;
}

TimePs whole_deadline_ps(double deadline_s) { return static_cast<TimePs>(deadline_s * kPsPerSecond); }

void walk_to(planner::FrontierSolver& solver, TimePs deadline_ps) {
  while (solver.time_ps() > deadline_ps && solver.saturate() == planner::FrontierSolver::Saturation::shorter_possible) {
    solver.shorten(deadline_ps);
  }
}

}  // namespace

StepPlanner::StepPlanner(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                         std::span<const double> blocking_power_w, const StepPlannerOptions& options)
    : dag_(&dag), profile_(&profile), blocking_power_w_(blocking_power_w), options_(options), timing_(dag) {
  std::map<std::pair<int, OpKind>, std::size_t> place_of_cell;
  std::optional<std::vector<int>> common;
  for (const schedule::ComputeOp& op : dag.ops) {
    const profile::Measurement& full = profile.at_max_clock(op.stage, op.kind);
    full_clocks_mhz_.push_back(full.clock_mhz);
    const auto [place, is_new] = place_of_cell.try_emplace({op.stage, op.kind}, cells_.size());
    cell_of_op_.push_back(place->second);
    if (!is_new) continue;
    const std::span<const profile::Measurement> rows = profile.measurements(op.stage, op.kind);
    const std::vector<profile::Option> exact =
        profile::pareto_options(rows, blocking_power_w[static_cast<std::size_t>(op.rank)]);
    std::vector<profile::Option> choices = exact;
    for (std::size_t i = 1; i < choices.size(); ++i) choices[i].time_s *= 1 + options.margin;
    Cell& cell = cells_.emplace_back(Cell{{}, planner::convex_cost(choices), planner::convex_cost(exact), full.time_s});
    for (const profile::Option& option : choices) {
      cell.choices.push_back({option.clock_mhz,
                              ps_not_below_s(option.time_s),
                              static_cast<EnergyZj>(option.effective_energy_j * kZjPerJoule),
                              {}});
    }
    std::vector<int> clocks;
    for (const profile::Measurement& row : rows) {
      if (!common || std::ranges::find(*common, row.clock_mhz) != common->end()) clocks.push_back(row.clock_mhz);
    }
    common = std::move(clocks);
  }
  common_clocks_mhz_ = std::move(*common);
  if (options.clocks_per == ClocksPer::replica && common_clocks_mhz_.empty()) {
    throw InputError("the profile has no clock that all stages and kinds have: plan with one clock per unit");
  }
}

std::vector<double> StepPlanner::work(std::span<const double> full_clock_s) const {
  std::vector<double> work;
  for (std::size_t op = 0; op < full_clock_s.size(); ++op) {
    work.push_back(full_clock_s[op] / cells_[cell_of_op_[op]].full_clock_s);
  }
  return work;
}

double StepPlanner::full_time_s(std::span<const double> work) const {
  std::vector<double> times_s;
  for (std::size_t op = 0; op < work.size(); ++op) times_s.push_back(work[op] * cells_[cell_of_op_[op]].full_clock_s);
  std::vector<double> start_s(work.size());
  return timing_.start_times(times_s, start_s);
}

planner::ProblemInstance StepPlanner::instance(std::span<const double> work, std::span<const double> busy,
                                               planner::ConvexCost Cell::*cost) const {
  planner::ProblemInstance instance;
  instance.edges = dag_->edges;
  instance.topological_order = dag_->topological_order;
  for (const double power_w : blocking_power_w_) instance.blocking_power_nw += nw_from_w(power_w);
  for (std::size_t op = 0; op < work.size(); ++op) {
    instance.costs.push_back(scaled(cells_[cell_of_op_[op]].*cost, work[op], busy_of(busy, op)));
    instance.cost_of_op.push_back(static_cast<int>(op));
  }
  return instance;
}

planner::ProblemInstance StepPlanner::instance(std::span<const double> work, std::span<const double> busy) const {
  return instance(work, busy, &Cell::cost_without_margin);
}

planner::PlanningModel StepPlanner::model(std::span<const double> work, std::span<const double> busy) const {
  planner::PlanningModel model{instance(work, busy, &Cell::cost), {}, {}};
  for (std::size_t op = 0; op < work.size(); ++op) {
    const Cell& cell = cells_[cell_of_op_[op]];
    model.rank_of_op.push_back(dag_->ops[op].rank);
    std::vector<planner::ClockChoice>& choices = model.choices.emplace_back();
    choices.reserve(cell.choices.size());
    for (const planner::ClockChoice& unit : cell.choices) {
      choices.push_back(
          {unit.clock_mhz,
           ps_not_below_s(s_from_ps(unit.time_ps) * work[op]),
           static_cast<EnergyZj>(static_cast<double>(unit.effective_energy_zj) * work[op] * busy_of(busy, op)),
           {}});
    }
  }
  return model;
}

std::vector<int> StepPlanner::clocks_per_unit(std::span<const double> work, std::span<const double> busy,
                                              double deadline_s) const {
  const planner::PlanningModel model = this->model(work, busy);
  const TimePs deadline_ps = std::max(whole_deadline_ps(deadline_s), planner::fastest_makespan_ps(model.instance));
  planner::FrontierSolver solver(model.instance);
  walk_to(solver, deadline_ps);
  planner::ContinuousPlan continuous{deadline_ps, {}, {}, {}, {}};
  continuous.op_flow_nw.assign(solver.op_flow_nw().begin(), solver.op_flow_nw().end());
  for (int op = 0; op < model.instance.op_count(); ++op) {
    continuous.start_by_ps.push_back(solver.start_event_ps(op));
    continuous.finish_by_ps.push_back(solver.finish_event_ps(op));
  }
  planner::Rounder rounder(model);
  std::optional<planner::DiscretePlan> best;
  for (const planner::RoundingRule& rule : kRoundings) {
    planner::DiscretePlan rounded = rounder.round(continuous, rule);
    if (!best || rounded.effective_energy_zj < best->effective_energy_zj) best = std::move(rounded);
  }
  rounder.trade_between_neighbours(*best, deadline_ps);
  std::vector<int> clocks_mhz;
  for (std::size_t op = 0; op < work.size(); ++op) {
    clocks_mhz.push_back(model.choices[op][planner::at(best->choice[op])].clock_mhz);
  }
  return clocks_mhz;
}

std::vector<int> StepPlanner::one_clock(std::span<const double> work, std::span<const double> busy,
                                        double deadline_s) const {
  std::vector<int> best = full_clocks_mhz_;
  std::optional<double> least_j;
  std::vector<double> times_s(work.size());
  std::vector<double> start_s(work.size());
  for (const int clock_mhz : common_clocks_mhz_) {
    double effective_j = 0;
    for (std::size_t op = 0; op < work.size(); ++op) {
      const auto& [rank, stage, kind, microbatch] = dag_->ops[op];
      const profile::Measurement& row = profile_->at_clock(stage, kind, clock_mhz);
      const bool is_full = clock_mhz == full_clocks_mhz_[op];
      times_s[op] = work[op] * row.time_s * (is_full ? 1 : 1 + options_.margin);
      effective_j += work[op] * busy_of(busy, op) *
                     (row.energy_j - blocking_power_w_[static_cast<std::size_t>(rank)] * row.time_s);
    }
    if (timing_.start_times(times_s, start_s) > deadline_s * (1 + kRounding)) continue;
    if (least_j && effective_j >= *least_j) continue;
    least_j = effective_j;
    best.assign(work.size(), clock_mhz);
  }
  return best;
}

ReplicaFigures StepPlanner::replay(std::span<const double> work, std::span<const int> clocks_mhz,
                                   std::span<const int> clocks_before_mhz, std::span<const double> busy) const {
  const plan::OpChoicesView choices{clocks_mhz, {}};
  const std::vector<simulator::OpCost> costs =
      options_.late_by_s > 0 ? simulator::costs_with_switch_latency(*dag_, *profile_, choices, options_.late_by_s,
                                                                    {work, clocks_before_mhz})
                             : simulator::costs_at_clocks(*dag_, *profile_, choices, {work, {}});
  std::vector<double> times_s;
  std::vector<double> start_s(work.size());
  ReplicaFigures figures;
  for (std::size_t op = 0; op < costs.size(); ++op) {
    const auto& [time_s, energy_j] = costs[op];
    const double share = busy_of(busy, op);
    times_s.push_back(time_s);
    figures.effective_energy_j +=
        share * (energy_j - blocking_power_w_[static_cast<std::size_t>(dag_->ops[op].rank)] * time_s);
    figures.busy_s += share * time_s;
    figures.clock_s_mhz += share * time_s * clocks_mhz[op];
  }
  figures.time_s = timing_.start_times(times_s, start_s);
  return figures;
}

ReplicaPlan StepPlanner::plan(std::span<const double> work, double deadline_s, std::span<const int> clocks_before_mhz,
                              std::span<const double> busy) const {
  ReplicaPlan plan;
  const auto try_clocks = [&](std::vector<int> clocks_mhz) {
    plan.clocks_mhz = std::move(clocks_mhz);
    plan.figures = replay(work, plan.clocks_mhz, clocks_before_mhz, busy);
    return plan.figures.time_s <= deadline_s * (1 + kRounding);
  };
  if (options_.clocks_per == ClocksPer::unit) {
    double asked_s = deadline_s;  // clocks that change late need an earlier one
    for (int tried = 0; tried < kTighterDeadlines && asked_s > 0; ++tried) {
      if (try_clocks(clocks_per_unit(work, busy, asked_s))) return plan;
      const double late_s = plan.figures.time_s - deadline_s;
      // A replica without slack has no earlier deadline: its rises are requested units before.
      if (try_clocks(planner::rises_in_advance(*dag_, *profile_, options_.late_by_s, plan.clocks_mhz, work)))
        return plan;
      asked_s -= late_s;
    }
  }
  if (common_clocks_mhz_.empty() || !try_clocks(one_clock(work, busy, deadline_s))) (void)try_clocks(full_clocks_mhz_);
  return plan;
}

ReplicaBound StepPlanner::bound(std::span<const double> work, double deadline_s, std::span<const double> busy) const {
  const planner::ProblemInstance instance = this->instance(work, busy);
  planner::FrontierSolver solver(instance);
  walk_to(solver, std::max(whole_deadline_ps(deadline_s), planner::fastest_makespan_ps(instance)));
  ReplicaBound bound;
  bound.flow_value_nw = solver.flow_value_nw();
  bound.op_flow_nw.assign(solver.op_flow_nw().begin(), solver.op_flow_nw().end());
  bound.edge_flow_nw.assign(solver.edge_flow_nw().begin(), solver.edge_flow_nw().end());
  const planner::BoundLine line = planner::bound_of_flow(instance, bound.op_flow_nw, bound.flow_value_nw);
  bound.effective_energy_j = j_from_zj(line.intercept_zj) - w_from_nw(line.slope_nw) * deadline_s;
  return bound;
}

}  // namespace lowgear::steps
