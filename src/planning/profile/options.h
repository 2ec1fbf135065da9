#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// One way to run an op. A GPU draws blocking power while it waits; an op that takes longer replaces waiting, so
/// options are compared by effective energy `energy_j - blocking_power_w * time_s` (docs/planner.md).
struct Option {
  int clock_mhz = 0;
  double time_s = 0;
  double energy_j = 0;
  double effective_energy_j = 0;
  std::string setting = {};
};

/// The measurements that no other one beats in time and in effective energy: fastest first, time strictly rising,
/// effective energy strictly falling. Never empty for a non-empty input. Of equal times the lower energy stays; of
/// equal time and energy the lower clock, and of that the first setting by name.
[[nodiscard]] std::vector<Option> pareto_options(std::span<const Measurement> measurements, double blocking_power_w);

/// Indices of the vertices of the lower convex hull of (time, effective energy), fastest first, of options as
/// `pareto_options` returns them. The first and the last option always are; an option on the line between two others is
/// not.
[[nodiscard]] std::vector<std::size_t> lower_convex_hull(std::span<const Option> options);

/// Largest blocking power of one GPU that is accepted, so that the sum over all stages stays within PowerNw.
inline constexpr double kMaxBlockingPowerW = 1e5;

/// Blocking power of each stage in watts from a CSV with the columns `stage,blocking_power` (W). Throws InputError with
/// file and line when a stage is missing, occurs twice or is not in [0, stages), a value is not in
/// [0, kMaxBlockingPowerW], or `stages` is not in [1, kMaxStages].
[[nodiscard]] std::vector<double> read_blocking_power(std::string_view text, const std::string& source, int stages);

}  // namespace lowgear::profile
