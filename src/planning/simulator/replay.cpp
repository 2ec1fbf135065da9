#include "planning/simulator/replay.h"

#include <cassert>
#include <cstddef>

namespace lowgear::simulator {

Timeline replay(const schedule::PipelineDag& dag, std::span<const OpCost> costs,
                std::span<const double> blocking_power_w) {
  return replay(dag, TimingGraph(dag), costs, blocking_power_w);
}

Timeline replay(const schedule::PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
                std::span<const double> blocking_power_w) {
  assert(costs.size() == dag.ops.size() && graph.op_count() == dag.ops.size());
  assert(blocking_power_w.size() == static_cast<std::size_t>(dag.ranks));
  Timeline timeline;
  timeline.start_s.resize(costs.size());
  timeline.duration_s.reserve(costs.size());
  timeline.energy_j.reserve(costs.size());
  timeline.busy_s.assign(static_cast<std::size_t>(dag.ranks), 0.0);
  for (std::size_t op = 0; op < costs.size(); ++op) {
    timeline.duration_s.push_back(costs[op].time_s);
    timeline.energy_j.push_back(costs[op].energy_j);
    timeline.busy_s[static_cast<std::size_t>(dag.ops[op].rank)] += costs[op].time_s;
    timeline.energy_j_total += costs[op].energy_j;
  }
  timeline.time_s = graph.start_times(timeline.duration_s, timeline.start_s);
  for (std::size_t rank = 0; rank < timeline.busy_s.size(); ++rank) {
    const double blocked_s = timeline.time_s - timeline.busy_s[rank];
    timeline.blocked_s.push_back(blocked_s);
    timeline.energy_j_total += blocking_power_w[rank] * blocked_s;
  }
  return timeline;
}

std::vector<std::vector<plan::PlannedOp>> planned_ops(const schedule::PipelineDag& dag, const Timeline& timeline,
                                                      const plan::OpChoicesView& choices) {
  assert(choices.clocks_mhz.size() == dag.ops.size());
  std::vector<std::vector<plan::PlannedOp>> ranks(static_cast<std::size_t>(dag.ranks));
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const schedule::ComputeOp& op = dag.ops[i];
    ranks[static_cast<std::size_t>(op.rank)].push_back({op.stage, op.kind, op.microbatch, choices.clocks_mhz[i],
                                                        timeline.start_s[i], timeline.duration_s[i],
                                                        std::string(choices.setting(i))});
  }
  return ranks;
}

}  // namespace lowgear::simulator
