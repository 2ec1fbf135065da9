#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

/// A clock of an op, in the picoseconds and zeptojoules of examples worked out by hand.
struct SmallChoice {
  TimePs time_ps = 0;
  std::int64_t effective_energy_zj = 0;
};

/// Ops of one rank, one after the other, each with choices of its own (fastest first). Costs have only their ends: the
/// pieces between them do not matter where no frontier is solved.
inline PlanningModel chain_model(const std::vector<std::vector<SmallChoice>>& choices_of_op) {
  PlanningModel model;
  for (std::size_t op = 0; op < choices_of_op.size(); ++op) {
    std::vector<ClockChoice>& choices = model.choices.emplace_back();
    for (const SmallChoice& choice : choices_of_op[op]) {
      const int clock_mhz = 1400 - 10 * static_cast<int>(choices.size());
      choices.push_back({clock_mhz, choice.time_ps, choice.effective_energy_zj});
    }
    ConvexCost& cost = model.instance.costs.emplace_back();
    cost.time_ps.push_back(choices.front().time_ps);
    cost.energy_at_fastest_zj = choices.front().effective_energy_zj;
    model.instance.cost_of_op.push_back(static_cast<int>(op));
    model.instance.topological_order.push_back(static_cast<int>(op));
    if (op > 0) model.instance.edges.push_back({static_cast<int>(op) - 1, static_cast<int>(op)});
    model.rank_of_op.push_back(0);
  }
  return model;
}

}  // namespace lowgear::planner
