#include "report/evaluation/emulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"

namespace lowgear::evaluation {

Emulation emulate(const EmulationCase& emulation, const EmulatedCluster& cluster, std::span<const double> factors,
                  PlansOf method, simulator::Accounting accounting) {
  if (cluster.pipelines < 1 || cluster.tensor_parallel < 1) {
    throw InputError(fmt::format("a cluster of {} pipelines with {} GPUs a stage; give at least 1 of each",
                                 cluster.pipelines, cluster.tensor_parallel));
  }
  const std::vector<simulator::PipelineFigures> plans =
      method == PlansOf::perseus ? frontier_of_perseus(emulation) : plans_of_lowgear(emulation, factors);
  Emulation result{.microbatches = emulation.microbatches,
                   .cluster = cluster,
                   .gpus = cluster.pipelines * cluster.tensor_parallel * emulation.profile->stages(),
                   .fastest = *std::ranges::min_element(plans, {}, &simulator::PipelineFigures::time_s),
                   .intrinsic_pct = 0,
                   .stragglers = {}};
  result.intrinsic_pct = intrinsic_saving_pct(emulation, result.fastest.time_s, result.fastest.energy_j);
  for (const double factor : factors) {
    simulator::StragglerScenario scenario = straggler_scenario(emulation, result.fastest.time_s, factor);
    scenario.pipelines = cluster.pipelines;
    const double saving_pct = perseus_saving_pct(scenario, plans, accounting);
    const double baseline_j = cluster.tensor_parallel * baseline_cluster_energy_j(scenario);
    result.stragglers.push_back({.factor = factor,
                                 .time_s = factor * result.fastest.time_s,
                                 .baseline_j = baseline_j,
                                 .energy_j = baseline_j * (1 - saving_pct / 100),
                                 .saving_pct = saving_pct,
                                 .extrinsic_pct = extrinsic_saving_pct(scenario, plans, accounting)});
  }
  return result;
}

}  // namespace lowgear::evaluation
