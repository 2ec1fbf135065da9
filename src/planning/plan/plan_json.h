#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
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

/// Iterations of a plan that all units run at another clock, to be measured there: one after the other, between
/// iterations at the plan's own clocks.
struct ClockTrial {
  std::int64_t first_iteration = 0;
  int iterations = 1;
  int clock_mhz = 0;

  [[nodiscard]] std::int64_t end_iteration() const { return first_iteration + iterations; }
  friend bool operator==(const ClockTrial&, const ClockTrial&) = default;
};

/// Most trials of one plan.
inline constexpr std::size_t kMaxClockTrials = 1'000;

/// As the server hands them out (docs/server-api.md): `[{"first_iteration": 12, "iterations": 1, "clock_mhz": 990}]`.
[[nodiscard]] Json to_json(std::span<const ClockTrial> trials);
/// Throws InputError with the JSON path, also when they overlap or do not rise.
[[nodiscard]] std::vector<ClockTrial> read_clock_trials(const JsonView& value);

}  // namespace lowgear::plan
