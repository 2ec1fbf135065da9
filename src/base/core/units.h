#pragma once

/// Units. Public interfaces carry SI doubles with the unit in the name (`time_s`, `energy_j`, `power_w`) and clocks as
/// whole megahertz (`clock_mhz`). The solver works in integers so that its results are exact and repeatable:
/// picoseconds for time and nanowatts for power, so that energy is a whole number of zeptojoules (1 nW x 1 ps = 1e-21
/// J). Picoseconds keep the rounding of a measured time (1e-11 of a 50 ms op) far below the 1e-9 that results are
/// checked to.
#include <cmath>
#include <cstdint>

namespace lowgear {

using TimePs = std::int64_t;              ///< picoseconds; 2^63 ps are 106 days
using PowerNw = std::int64_t;             ///< nanowatts
__extension__ using EnergyZj = __int128;  ///< zeptojoules (1e-21 J); 64 bits would end at 9 mJ

inline constexpr double kPsPerSecond = 1e12;
inline constexpr double kNwPerWatt = 1e9;
inline constexpr double kZjPerJoule = 1e21;

inline constexpr double kWattsPerMilliwatt = 1e-3;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;
inline constexpr double kGiB = 1024.0 * 1024 * 1024;  ///< bytes

/// Highest clock that input may name.
inline constexpr int kMaxClockMhz = 100'000;

/// Longest time that the integer model takes, for one op and for a whole iteration: 10^6 s (11.6 days).
inline constexpr double kMaxTimeS = 1e6;

/// Nearest picosecond. `time_s` must be finite and at most kMaxTimeS.
[[nodiscard]] inline TimePs ps_from_s(double time_s) { return std::llround(time_s * kPsPerSecond); }
/// Rounds up to the whole picosecond, except for an excess of at most a thousandth, which doubles can add to a whole
/// number. Times of a plan are rounded up, so that it keeps its deadline when replayed with the unrounded times.
[[nodiscard]] inline TimePs ps_not_below_s(double time_s) {
  return static_cast<TimePs>(std::ceil(time_s * kPsPerSecond - 1e-3));
}
[[nodiscard]] inline constexpr double s_from_ps(TimePs time_ps) { return static_cast<double>(time_ps) / kPsPerSecond; }

/// Nearest nanowatt.
[[nodiscard]] inline PowerNw nw_from_w(double power_w) { return std::llround(power_w * kNwPerWatt); }
[[nodiscard]] inline constexpr double w_from_nw(PowerNw power_nw) { return static_cast<double>(power_nw) / kNwPerWatt; }

[[nodiscard]] inline constexpr double j_from_zj(EnergyZj energy_zj) {
  return static_cast<double>(energy_zj) / kZjPerJoule;
}

}  // namespace lowgear
