#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::plan {

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
