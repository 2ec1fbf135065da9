#pragma once

#include <span>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/op_costs.h"
#include "planning/simulator/timing_graph.h"

namespace lowgear::simulator {

/// One iteration, replayed: start and duration of every op, and the iteration's time and energy.
struct Timeline {
  std::vector<double> start_s;     ///< by op of the graph
  std::vector<double> duration_s;  ///< by op of the graph
  std::vector<double> energy_j;    ///< by op of the graph
  double time_s = 0;               ///< iteration time: the last op's end
  double energy_j_total = 0;       ///< ops plus blocking energy of all ranks, one GPU a rank
  std::vector<double> busy_s;      ///< by rank
  std::vector<double> blocked_s;   ///< by rank: iteration time less busy time
};

/// Energy model: every op at its cost, and each rank draws its blocking power whenever it runs none, over
/// the whole iteration. Starts every op as soon as what it depends on has finished. `costs` by op; `blocking_power_w`
/// by rank.
[[nodiscard]] Timeline replay(const schedule::PipelineDag& dag, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// The same on a TimingGraph of `dag` made once, for many replays of one pipeline.
[[nodiscard]] Timeline replay(const schedule::PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// The ops of a replay with the clocks and settings that they ran with, as a Plan holds them: rank by rank, in the
/// order of execution.
[[nodiscard]] std::vector<std::vector<plan::PlannedOp>> planned_ops(const schedule::PipelineDag& dag,
                                                                    const Timeline& timeline,
                                                                    const plan::OpChoicesView& choices);

}  // namespace lowgear::simulator
