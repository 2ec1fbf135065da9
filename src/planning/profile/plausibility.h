#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
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
/// what `check_rows` finds of rows and `check_groups` of stages and kinds, with line and values. Throws InputError
/// where no GPU can have measured it.
[[nodiscard]] std::vector<std::string> profile_doubts(const StageProfile& profile, const ProfileContext& context);

/// A stage profile as its file states it.
struct ProfileFile {
  std::string source;
  StageProfile profile;  ///< ranks of a stage merged
  /// What each rank measured, where the file has the column `rank`, else the whole; whatever stages and kinds are
  /// missing.
  std::vector<StageProfile> ranks;
  /// What merging the ranks of a stage leaves out, ranks that contradict each other, and columns that nothing reads.
  std::vector<std::string> doubts;
};

/// Reads the file as `read_stage_profile` does, and throws as it does.
[[nodiscard]] ProfileFile read_profile_file(std::string_view text, const std::string& source);

/// Why the file cannot be relied on, one line each: its own doubts, and those of `profile_doubts` about each rank and
/// about the whole. Everything that reads a profile for its figures says these. `context.source` is that of the file.
[[nodiscard]] std::vector<std::string> profile_doubts(const ProfileFile& file, ProfileContext context);

}  // namespace lowgear::profile
