#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// The power limit of the GPU model that a profile was measured on.
struct NamedPowerLimit {
  std::string gpu_name;
  double limit_w = 0;
};

/// Whether times, energies and blocking power can be in seconds, joules and watts, judged against each other, against
/// what any GPU draws, and against the power limit of `gpu` where that is known: one line that names the figure and the
/// likely unit, or nothing. `blocking_power_w` by rank, empty when not known.
[[nodiscard]] std::optional<std::string> unit_warning(const StageProfile& profile,
                                                      std::span<const double> blocking_power_w,
                                                      const std::optional<NamedPowerLimit>& gpu = {});

}  // namespace lowgear::profile
