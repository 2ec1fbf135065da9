#pragma once

#include <optional>
#include <span>
#include <string>

#include "profile/stage_profile.h"

namespace lowgear {

/// Whether times, energies and blocking power can be in seconds, joules and watts, judged against each other and
/// against what any GPU draws: one line that names the figure and the likely unit, or nothing. `blocking_power_w` by
/// rank, empty when not known.
[[nodiscard]] std::optional<std::string> unit_warning(const StageProfile& profile,
                                                      std::span<const double> blocking_power_w);

}  // namespace lowgear
