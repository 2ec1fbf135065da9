#include "planning/planner/planners/planning_model.h"

#include <map>
#include <utility>

#include "planning/profile/options.h"

namespace lowgear::planner {

PlanningModel make_planning_model(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                  std::span<const double> blocking_power_w) {
  PlanningModel model;
  model.instance.edges = dag.edges;
  model.instance.topological_order = dag.topological_order;
  for (const double power_w : blocking_power_w) model.instance.blocking_power_nw += nw_from_w(power_w);
  std::map<std::pair<int, OpKind>, int> cost_of_cell;
  model.instance.cost_of_op.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) {
    const auto [cell, is_new] = cost_of_cell.try_emplace({op.stage, op.kind}, static_cast<int>(model.choices.size()));
    model.instance.cost_of_op.push_back(cell->second);
    model.rank_of_op.push_back(op.rank);
    if (!is_new) continue;
    (void)profile.at_max_clock(op.stage, op.kind);  // says which rows are missing
    const std::vector<profile::Option> options =
        pareto_options(profile.measurements(op.stage, op.kind), blocking_power_w[static_cast<std::size_t>(op.rank)]);
    model.instance.costs.push_back(convex_cost(options));
    std::vector<ClockChoice>& choices = model.choices.emplace_back();
    for (const profile::Option& option : options) {
      choices.push_back({option.clock_mhz, ps_not_below_s(option.time_s),
                         static_cast<EnergyZj>(option.effective_energy_j * kZjPerJoule), option.setting});
    }
  }
  return model;
}

}  // namespace lowgear::planner
