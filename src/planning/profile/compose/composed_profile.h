#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planning/profile/compose/part_table.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

struct ComposeOptions {
  std::size_t max_options = 64;  ///< of one (stage, kind, clock): 2 to kMaxSettings
  /// Largest blocking power that the profile is to be planned with, in W: slower options that cost more than this per
  /// second are left out, since waiting costs less. By default none is.
  double blocking_power_w = std::numeric_limits<double>::infinity();
};

/// What became of a (stage, kind) at one clock.
struct ComposedCell {
  PartCell cell;
  std::size_t parts = 0;
  double combinations = 0;   ///< of one option for each part: the product
  std::size_t vertices = 0;  ///< of their lower convex hull
  std::size_t options = 0;   ///< of these in the profile
  SeriesGap gap;
};

struct ComposedProfile {
  StageProfile profile;
  std::vector<ComposedCell> cells;  ///< stage by stage, kind by kind, lowest clock first
};

/// The profile of ops whose parts run one after the other at one clock, each with an option of its own. Throws
/// InputError when the total of an op is no measurement (`StageProfile::add`), or its setting becomes too long.
[[nodiscard]] ComposedProfile compose_profile(const PartTable& parts, const ComposeOptions& options);

}  // namespace lowgear::profile
