#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/compose/series.h"

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

}  // namespace lowgear::profile
