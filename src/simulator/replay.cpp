#include "simulator/replay.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <cstddef>

#include "core/error.h"
#include "simulator/timing_graph.h"

namespace lowgear {

Timeline replay(const PipelineDag& dag, std::span<const OpCost> costs, std::span<const double> blocking_power_w) {
  return replay(dag, TimingGraph(dag), costs, blocking_power_w);
}

Timeline replay(const PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
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

std::vector<OpCost> costs_at_clocks(const PipelineDag& dag, const StageProfile& profile,
                                    std::span<const int> clocks_mhz) {
  assert(clocks_mhz.size() == dag.ops.size());
  std::vector<OpCost> costs;
  costs.reserve(dag.ops.size());
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const Measurement& measured = profile.at_clock(dag.ops[i].stage, dag.ops[i].kind, clocks_mhz[i]);
    costs.push_back({measured.time_s, measured.energy_j});
  }
  return costs;
}

void apply_slowdowns(const PipelineDag& dag, std::span<const StageSlowdown> slowdowns, std::span<OpCost> costs) {
  assert(costs.size() == dag.ops.size());
  std::vector<double> factor_of_stage(static_cast<std::size_t>(dag.stages), 1.0);
  for (const StageSlowdown& slowdown : slowdowns) {
    if (slowdown.stage < 0 || slowdown.stage >= dag.stages) {
      throw InputError(fmt::format("slowdown of stage {}: the pipeline has no such stage; its stages are 0 to {}",
                                   slowdown.stage, dag.stages - 1));
    }
    double& factor = factor_of_stage[static_cast<std::size_t>(slowdown.stage)];
    factor *= slowdown.factor;
    if (!(slowdown.factor > 0) || !(factor > 0) || !(factor <= kMaxSlowdownFactor)) {
      throw InputError(fmt::format("slowdown of stage {} by {}: the factor must be above 0 and at most {}",
                                   slowdown.stage, slowdown.factor, kMaxSlowdownFactor));
    }
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const double factor = factor_of_stage[static_cast<std::size_t>(dag.ops[i].stage)];
    costs[i].time_s *= factor;
    costs[i].energy_j *= factor;
  }
}

}  // namespace lowgear
