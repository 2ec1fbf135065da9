#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/compose/series.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// Longest name of a part.
inline constexpr std::size_t kMaxPartNameBytes = 64;
/// Most parts of an op.
inline constexpr std::size_t kMaxParts = 256;
/// Most times that an op runs a part.
inline constexpr int kMaxPartCount = 100'000;
/// By how much an option may be slower at a higher clock, as a share of its time: what noise explains.
inline constexpr double kTimeNoise = 0.02;

/// A (stage, kind) at one clock.
struct PartCell {
  int stage = 0;
  OpKind kind = OpKind::forward;
  int clock_mhz = 0;

  friend auto operator<=>(const PartCell&, const PartCell&) = default;
};

/// The parts of every (stage, kind) at every clock, in the order in which the file first names them.
using PartTable = std::map<PartCell, std::vector<SeriesPart>>;

/// Reads `stage,instruction,part,frequency,setting,time,energy` and optionally `count` (docs/formats.md). A part whose
/// rows have no frequency is the same at all clocks. Throws InputError with file and line on values that are not
/// numbers of their range; a part that lacks a clock that other parts of its op have; an option that occurs twice; a
/// part with different counts, or with and without a frequency; an option that takes longer at a higher clock, by more
/// than kTimeNoise; an op of fixed parts alone.
[[nodiscard]] PartTable read_part_table(std::string_view text, const std::string& source);

struct ComposeOptions {
  std::size_t max_options = 64;  ///< of one (stage, kind, clock): 2 to kMaxSettings
  /// Largest blocking power that the profile is to be planned with, in W: slower options that cost more than this per
  /// second are left out, since waiting costs less. By default none is.
  double blocking_power_w = std::numeric_limits<double>::infinity();
};

/// The options of a (stage, kind) at one clock, before and after they were reduced.
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
