#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "profile/stage_profile.h"

namespace lowgear {

/// One way to run an op. Blocking power is what its GPU draws while it waits; an op that takes longer replaces waiting,
/// so what counts is the effective energy `energy_j - blocking_power_w * time_s` (DESIGN §3).
struct Option {
  int clock_mhz = 0;
  double time_s = 0;
  double energy_j = 0;
  double effective_energy_j = 0;
};

/// The measurements that no other one beats in time and in effective energy: fastest first, time strictly rising,
/// effective energy strictly falling. Never empty for a non-empty input. Of equal times the lower energy stays; of
/// equal time and energy the lower clock.
[[nodiscard]] std::vector<Option> pareto_options(std::span<const Measurement> measurements, double blocking_power_w);

/// Indices of the options that lie on the lower convex hull of (time, effective energy), fastest first. The first and
/// the last option always do.
[[nodiscard]] std::vector<std::size_t> lower_convex_hull(std::span<const Option> options);

/// Blocking power of each stage in watts, from what the user gave: a number for all stages, or the path of a CSV with
/// the columns `stage,blocking_power` (W). Throws InputError when a stage is missing or a value is negative or not
/// finite.
[[nodiscard]] std::vector<double> blocking_power_from_argument(const std::string& argument, int stages);

}  // namespace lowgear
