#include "planning/planner/planners/needless_changes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lowgear::planner {
namespace {

/// Whether the op was measured at `other_mhz`, and is neither slower nor dearer there.
bool is_as_good_at(int other_mhz, int clock_mhz, const schedule::ComputeOp& op, const profile::StageProfile& profile,
                   double blocking_power_w) {
  const auto rows = profile.measurements(op.stage, op.kind);
  const auto other = std::ranges::find(rows, other_mhz, &profile::Measurement::clock_mhz);
  if (other == rows.end()) return false;
  const profile::Measurement& own = profile.at_clock(op.stage, op.kind, clock_mhz);
  const auto effective_j = [&](const profile::Measurement& row) {
    return row.energy_j - blocking_power_w * row.time_s;
  };
  return other->time_s <= own.time_s && effective_j(*other) <= effective_j(own);
}

}  // namespace

std::vector<int> without_needless_changes(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                          std::span<const double> blocking_power_w, PlanGranularity granularity,
                                          std::vector<int> clocks_mhz) {
  std::map<std::pair<int, OpKind>, int> shared_mhz;
  for (int rank = 0; rank < dag.ranks; ++rank) {
    const auto first = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t op = first; op < end; ++op) {
      int& clock_mhz = clocks_mhz[op];
      const schedule::ComputeOp& computation = dag.ops[op];
      const auto shared = shared_mhz.find({computation.stage, computation.kind});
      if (shared != shared_mhz.end()) {
        clock_mhz = shared->second;
        continue;
      }
      const double power_w = blocking_power_w[static_cast<std::size_t>(rank)];
      if (op > first && clocks_mhz[op - 1] != clock_mhz &&
          is_as_good_at(clocks_mhz[op - 1], clock_mhz, computation, profile, power_w)) {
        clock_mhz = clocks_mhz[op - 1];
      }
      if (granularity == PlanGranularity::per_stage_kind) {
        shared_mhz.emplace(std::pair(computation.stage, computation.kind), clock_mhz);
      }
    }
  }
  return clocks_mhz;
}

}  // namespace lowgear::planner
