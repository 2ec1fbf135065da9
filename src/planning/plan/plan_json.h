#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "planning/plan/plan.h"

namespace lowgear::plan {

/// Largest plan text that is read: about two million ops. Keeps a hostile file from exhausting the memory.
inline constexpr std::size_t kMaxPlanBytes = std::size_t{1} << 28;

/// Writes `lowgear.plan/1` (docs/formats.md): `stages` holds one object per rank with `stage` and its ordered `ops`
/// (`op,microbatch,mhz,start_s,duration_s`, `setting` where there is one, and `virtual_stage` on ranks that run other
/// stages than that of their own number). Numbers are as short as they can be and read back unchanged. Throws Error
/// when a figure is not finite.
[[nodiscard]] std::string write_plan(const Plan& plan);

/// Reads it back; `gap_pct` is not read but follows from energy and bound. Throws InputError with the JSON path on
/// anything missing, of the wrong kind, out of range, or of another format version. Whether starts and durations are
/// those of a replay is not looked at: that is what `lowgear verify` does.
[[nodiscard]] Plan read_plan(std::string_view text, const std::string& source);

}  // namespace lowgear::plan
