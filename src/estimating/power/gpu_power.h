#pragma once

#include <string_view>
#include <type_traits>

#include "estimating/power/voltage_curve.h"

namespace lowgear::power {

/// SM clocks that a GPU can be locked to: every `step_mhz` from `max_mhz` down to `min_mhz`.
struct ClockSteps {
  int min_mhz = 0;
  int max_mhz = 0;
  int step_mhz = 15;
};

/// Origin of a number: measured by Lowgear, computed from published measurements, or assumed.
enum class Basis : unsigned char { measured, published, assumed };
[[nodiscard]] std::string_view name(Basis basis);

/// Temperature of the die for which GpuPower::static_w holds. Estimates count with it.
inline constexpr double kReferenceC = 40;

/// Power of one GPU by activity, clock and temperature:
///   static_w - clock_tree_w (1 - r) + static_per_k_w (T - 40 C)  awake
///   + c compute_w r                                              multiprocessors busy for a share c of the time
///   + m (memory_w + memory_sm_w r)                               kernels limited by memory for a share m of it
/// with r = clock / highest clock x V^2. Trivially copyable, so that processes may share it.
struct GpuPower {
  double idle_w = 0;           ///< without any process
  double static_w = 0;         ///< awake at the highest clock while nothing runs, at 40 C
  double static_per_k_w = 0;   ///< growth of static_w with the temperature of the die
  double clock_tree_w = 0;     ///< the part of static_w that goes with clock x voltage^2
  double blocking_w = 0;       ///< spins in a collective that waits for a peer, at the highest clock
  double compute_w = 0;        ///< added by multiprocessors busy with products in 16 bits, at the highest clock
  double fp8_share = 1;        ///< power of products in fp8 as a share of compute_w
  double attention_share = 1;  ///< power of fused attention as a share of compute_w
  double memory_w = 0;         ///< added by kernels limited by memory, at every clock
  double memory_sm_w = 0;      ///< added by their multiprocessors at the highest clock
  double link_w = 0;           ///< added by links at full rate
  double limit_w = 0;          ///< power limit; in the table the default (TDP)
  double kernel_limit_w = 0;   ///< limit under which the speed of kernels was measured; 0: limit_w
  VoltageCurve voltage = {};
  Basis voltage_basis = Basis::assumed;

  /// Static power at a rate r and a temperature.
  [[nodiscard]] double static_power_w(double rate, double die_c = kReferenceC) const {
    return static_w - clock_tree_w * (1 - rate) + static_per_k_w * (die_c - kReferenceC);
  }
};
static_assert(std::is_trivially_copyable_v<GpuPower>);

/// Switching of a GPU at a clock, relative to the highest clock.
struct Switching {
  double v2 = 1;    ///< energy of an operation
  double rate = 1;  ///< power of a busy multiprocessor

  Switching(const GpuPower& power, double clock_mhz, double max_mhz)
      : v2(power.voltage.relative_v2(clock_mhz)), rate(v2 * clock_mhz / max_mhz) {}
};

/// The highest clock in [low, high] at which the power, which rises with the clock, is within a limit; `low` if there
/// is none. Found to a millionth of the range.
template <typename Power>
[[nodiscard]] double highest_clock_within(double low_mhz, double high_mhz, double limit_w, const Power& power_w) {
  constexpr int kBisections = 20;
  if (power_w(high_mhz) <= limit_w) return high_mhz;
  for (int i = 0; i < kBisections; ++i) {
    const double middle_mhz = (low_mhz + high_mhz) / 2;
    (power_w(middle_mhz) <= limit_w ? low_mhz : high_mhz) = middle_mhz;
  }
  return low_mhz;
}

/// A GPU of the table (gpu_table.cpp names the measurements that support each number).
struct GpuRow {
  std::string_view name;  ///< `h100-sxm`
  ClockSteps clocks;
  GpuPower power;
  std::string_view source;  ///< of the voltage curve, for reports
};

/// The row with this name. Throws InputError.
[[nodiscard]] const GpuRow& gpu_row(std::string_view name);

}  // namespace lowgear::power
