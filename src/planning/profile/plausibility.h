#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/row_check.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// Whether figures that are impossible in their units and possible in others are errors or doubts. Ops that take longer
/// than is usual, or draw more than the limit of the named GPU, are an error where they can be accepted, else a doubt.
enum class ImpossibleUnits : std::uint8_t {
  refuse,
  refuse_unless_accepted,  ///< the error names `--accept-units`
  accept,
};

/// Facts beyond the profile that it is judged by.
struct ProfileContext {
  std::string source = {};                        ///< its file, for messages; empty: none
  std::span<const double> blocking_power_w = {};  ///< by rank; empty: not known
  std::optional<NamedPowerLimit> gpu = {};
  ImpossibleUnits units = ImpossibleUnits::refuse;
};

/// Why a profile cannot be relied on, one line each: times, energies and blocking power that look like other units,
/// what `check_rows` finds of rows and `check_groups` of stages and kinds, with line and values. Throws InputError
/// where no GPU can have measured it, and where the blocking power is impossible and another unit is likely.
[[nodiscard]] std::vector<std::string> profile_doubts(const StageProfile& profile, const ProfileContext& context);
/// The same, of the rows that each rank measured and of the stages that they have together. Each doubt is listed once.
[[nodiscard]] std::vector<std::string> profile_doubts(std::span<const StageProfile> ranks, const StageProfile& merged,
                                                      const ProfileContext& context);

}  // namespace lowgear::profile
