#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/row_check.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// What a profile is judged by, besides itself.
struct ProfileContext {
  std::string source = {};                        ///< its file, for messages; empty: none
  std::span<const double> blocking_power_w = {};  ///< by rank; empty: not known
  std::optional<NamedPowerLimit> gpu = {};
};

/// Why a profile cannot be relied on, one line each: times, energies and blocking power that look like other units,
/// and rows that `check_rows` finds, with line and values. Throws InputError where no GPU can have measured it.
[[nodiscard]] std::vector<std::string> profile_doubts(const StageProfile& profile, const ProfileContext& context);

}  // namespace lowgear::profile
