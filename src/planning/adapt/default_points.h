#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lowgear::adapt {

/// How many points are searched among unless the user names them.
inline constexpr std::size_t kDefaultPoints = 6;

/// SM clocks to search an operating point among, for a job of which no more is known than the clock that it runs at
/// when the highest one is requested, `running_mhz` (below that where a power limit holds it back): the highest
/// supported one; the lowest that a job which computes all the time can have within the allowed slowdown, as its time
/// is then inversely proportional to the clock; and evenly below that down to 0.55 of the highest, for jobs that wait
/// or are bound by memory. There an iteration's energy is past its least: published stage profiles of Perseus have the
/// least energy at 0.77 (A100) and 0.59 (A40) of the highest clock.
///
/// Highest first, at most kDefaultPoints. `supported_mhz` in any order. Throws InputError when there are fewer than 2.
[[nodiscard]] std::vector<int> default_clocks_mhz(std::span<const int> supported_mhz, double running_mhz,
                                                  double allowed_slowdown_pct);

/// Power limits to search among: the default one, and evenly from just below the power that the job draws with it,
/// `running_w`, down to half of that, or to the least limit that the GPU supports. In whole watts, highest first, at
/// most kDefaultPoints. Throws InputError when there are fewer than 2.
[[nodiscard]] std::vector<double> default_power_limits_w(double min_w, double default_w, double running_w);

}  // namespace lowgear::adapt
