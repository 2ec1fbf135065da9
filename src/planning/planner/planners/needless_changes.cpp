#include "planning/planner/planners/needless_changes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lowgear::planner {
namespace {

/// How the op runs at `other_mhz` no slower and no dearer than as it is to run; null if it does not.
const profile::Measurement* as_good_at(int other_mhz, const profile::Measurement& own, const schedule::ComputeOp& op,
                                       const profile::StageProfile& profile, double blocking_power_w) {
  const auto effective_j = [&](const profile::Measurement& row) {
    return row.energy_j - blocking_power_w * row.time_s;
  };
  const auto rows = profile.measurements(op.stage, op.kind);
  const auto found = std::ranges::find_if(rows, [&](const profile::Measurement& row) {
    return row.clock_mhz == other_mhz && row.time_s <= own.time_s && effective_j(row) <= effective_j(own);
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

plan::OpChoices without_needless_changes(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                         std::span<const double> blocking_power_w, PlanGranularity granularity,
                                         plan::OpChoices choices) {
  const bool with_settings = !choices.settings.empty();
  std::map<std::pair<int, OpKind>, const profile::Measurement*> shared;
  for (int rank = 0; rank < dag.ranks; ++rank) {
    const auto first = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t op = first; op < end; ++op) {
      int& clock_mhz = choices.clocks_mhz[op];
      const schedule::ComputeOp& computation = dag.ops[op];
      const auto& [at_rank, stage, kind, microbatch] = computation;
      const profile::Measurement* row = with_settings
                                            ? &profile.at_setting(stage, kind, clock_mhz, choices.settings[op])
                                            : &profile.at_clock(stage, kind, clock_mhz);
      const auto same = shared.find({stage, kind});
      if (same != shared.end()) {
        row = same->second;
      } else if (op > first && choices.clocks_mhz[op - 1] != clock_mhz) {
        const double power_w = blocking_power_w[static_cast<std::size_t>(rank)];
        const profile::Measurement* const other =
            as_good_at(choices.clocks_mhz[op - 1], *row, computation, profile, power_w);
        if (other != nullptr) row = other;
      }
      clock_mhz = row->clock_mhz;
      if (with_settings) choices.settings[op] = row->setting;
      if (granularity == PlanGranularity::per_stage_kind) shared.emplace(std::pair(stage, kind), row);
    }
  }
  return choices;
}

}  // namespace lowgear::planner
