#include "rivals/policies/published_policies.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/envpipe/envpipe_offline.h"
#include "rivals/policies/perseus/perseus_policy.h"
#include "rivals/policies/zeus/zeus.h"

namespace lowgear::policies {

planner::PolicyTable published_policies(const PolicySettings& settings) {
  return planner::PolicyTable({
      {"zeus-global", [] { return std::make_unique<ZeusGlobalPolicy>(); }},
      {"zeus-per-stage", [] { return std::make_unique<ZeusPerStagePolicy>(); }},
      {"envpipe", [options = settings.envpipe] { return std::make_unique<EnvPipePolicy>(options); }},
      {"envpipe-offline",
       [unit_s = settings.perseus.unit_s] { return std::make_unique<EnvPipeOfflinePolicy>(unit_s); }},
      {.name = "perseus",
       .make = [options = settings.perseus] { return std::make_unique<PerseusPolicy>(options); },
       .solves_frontier = true},
  });
}

std::vector<std::optional<double>> published_savings_pct(std::span<const api::ComparisonRow> rows,
                                                         const planner::PlanningProblem& problem) {
  std::vector<std::optional<double>> savings_pct(rows.size());
  const auto perseus = std::ranges::find(rows, "perseus", &api::ComparisonRow::policy);
  if (perseus == rows.end() || !perseus->own_time_s) return savings_pct;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].policy == planner::kLowgearPolicy) continue;
    const double energy_j = rows[i].own_energy_j.value_or(rows[i].energy_j);
    savings_pct[i] = perseus_intrinsic_saving_pct(problem, *perseus->own_time_s, energy_j);
  }
  return savings_pct;
}

}  // namespace lowgear::policies
