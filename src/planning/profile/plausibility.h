#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/row_check.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// What becomes of figures that are impossible in their units and possible in others.
enum class ImpossibleUnits : bool { refuse, accept };

/// Facts beyond the profile that it is judged by.
struct ProfileContext {
  std::string source = {};                        ///< its file, for messages; empty: none
  std::span<const double> blocking_power_w = {};  ///< by rank; empty: not known
  std::optional<NamedPowerLimit> gpu = {};
  ImpossibleUnits units = ImpossibleUnits::refuse;  ///< accept: doubts instead of errors
};

/// Why a profile cannot be relied on, one line each: times, energies and blocking power that look like other units,
/// what `check_rows` finds of rows and `check_groups` of stages and kinds, with line and values. Throws InputError
/// where no GPU can have measured it, and where the blocking power is impossible and another unit is likely.
[[nodiscard]] std::vector<std::string> profile_doubts(const StageProfile& profile, const ProfileContext& context);
/// The same, of the rows that each rank measured and of the stages that they have together. Each doubt is listed once.
[[nodiscard]] std::vector<std::string> profile_doubts(std::span<const StageProfile> ranks, const StageProfile& merged,
                                                      const ProfileContext& context);

/// A stage or a kind of a profile that contradicts the others.
struct GroupFinding {
  std::string what;         ///< the contradiction, with clocks and values
  std::string_view advice;  ///< what to do
  int line = 0;             ///< of the row that it begins with; 0: none
};

/// Of an even number the geometric mean of both in the middle: one wrong value of two is not that of all. `values` must
/// not be empty.
[[nodiscard]] double median_of(std::vector<double> values);

/// Contradictions between stages or kinds. No single row shows them, since the rows of each agree, as when all are in
/// other units:
/// - stages whose forwards or backwards take several times as long, or as short, as those of the others;
/// - backwards that take many times as long as the forwards of their stage, in all stages, or a fraction of them. A
///   first stage may be frozen but for a few layers, so that its backwards are short. Nor may this ratio be far from
///   that of the other stages;
/// - kinds whose power at the same clocks is far from that of the other stages, and backwards from that of forwards;
/// - ops without the highest clock of most others, or without many of theirs;
/// - kinds that state the same twice: a backward and its halves, a recomputation and its forward, a recomputing
///   backward and its parts.
/// Halves of a backward can be nothing (the first stage's input gradient), and are only compared as a whole.
[[nodiscard]] std::vector<GroupFinding> check_groups(const StageProfile& profile);

}  // namespace lowgear::profile
