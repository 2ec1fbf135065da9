#include "planning/profile/compose/composed_profile.h"

#include <algorithm>
#include <utility>

namespace lowgear::profile {

ComposedProfile compose_profile(const PartTable& parts, const ComposeOptions& options) {
  int stages = 0;
  for (const auto& [cell, series] : parts) stages = std::max(stages, cell.stage + 1);
  ComposedProfile composed{StageProfile(stages), {}};
  for (const auto& [cell, series] : parts) {
    const std::vector<SeriesOption> hull = compose_series(series, options.blocking_power_w);
    const std::vector<SeriesOption> kept = thinned(hull, options.max_options);
    for (const SeriesOption& option : kept) {
      composed.profile.add(cell.stage, cell.kind,
                           {cell.clock_mhz, option.time_s, option.energy_j, setting_of(option, series)});
    }
    double combinations = 1;
    for (const SeriesPart& part : series) combinations *= static_cast<double>(part.options.size());
    composed.cells.push_back({cell, series.size(), combinations, hull.size(), kept.size(), gap_of(hull, kept)});
  }
  return composed;
}

}  // namespace lowgear::profile
