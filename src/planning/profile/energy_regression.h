#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {

/// Most (stage, kind, clock) of one rank that can be distinguished at once.
inline constexpr std::size_t kMaxCells = 1024;

/// What energy is attributed to: a computation of a stage at a clock.
struct CellKey {
  int stage = 0;
  OpKind kind = OpKind::forward;
  int clock_mhz = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a comparison is no pointer
  auto operator<=>(const CellKey&) const = default;
};

/// A stretch of time between two values of the energy counter, and the units of the GPU in that time.
struct EnergyWindow {
  struct Share {
    std::size_t cell = 0;
    double time_s = 0;
  };
  std::vector<Share> busy;  ///< each cell at most once
  double waiting_s = 0;     ///< in none of them
  std::vector<Share>
      waiting;  ///< the same by the clock at which it waited: indices of EnergyWindows::waiting_clocks_mhz
  double energy_j = 0;
};

/// Windows of a recording between changes of its counter, with the cells that they refer to. The first and the last
/// value, and all outside of the first unit's start and the last unit's end, are left out: what ran there is not known.
struct EnergyWindows {
  std::vector<CellKey> cells;
  /// Clocks at which a GPU waited: those of the units before, as clocks change when a unit begins.
  std::vector<int> waiting_clocks_mhz;
  std::vector<EnergyWindow> windows;
};

/// Where the counter is polled (CounterSampling::periodic), a change happened at an unknown time since the reading
/// before. NVML's counter advances in steady steps (100 ms on H100), so that times are taken from a straight line
/// through the middles of those intervals around each change, but never from outside of the change's own interval.
/// Units of clock 0 (none was asked for) count as cells of clock 0. Windows that reach into an iteration in which
/// clocks settled are left out. Where energies are those of power readings, each reading ends a window of its own, of
/// Recording::power_mean_s; these overlap. `parts` are all of one rank. Throws InputError when units overlap or there
/// are more than kMaxCells cells.
[[nodiscard]] EnergyWindows energy_windows(std::span<const Recording> parts);
[[nodiscard]] EnergyWindows energy_windows(const Recording& recording);

/// By how much the times of a recording's samples must be raised to fit its units best (`Recording::energy_shift_s`):
/// clocks of two files that were started apart. Tried up to 0.6 s around the present one, which stays where no other
/// explains the energies much better, so also where all units draw the same: then a shift changes no power.
[[nodiscard]] double find_energy_shift_s(Recording recording, std::optional<double> blocking_w);

/// Mean power of one cell.
struct CellPower {
  double power_w = 0;
  double error_w = 0;  ///< standard error
  /// Whether the windows tell it from all others. If not, `power_w` is the share that the non-negative solution gives
  /// it, one of many that explain the recording as well: no measurement.
  bool is_identified = true;
};

struct EnergyRegression {
  std::vector<CellPower> cells;  ///< as in EnergyWindows::cells
  /// Estimated, the mean over the time that was waited; empty where it was given.
  std::optional<CellPower> blocking;
  /// By clock; empty where the windows do not tell them apart.
  std::map<int, CellPower> blocking_by_clock;
  double residual_j = 0;  ///< root mean square of the residuals of windows
  std::size_t window_count = 0;
};

/// Power of every cell, and of waiting, by non-negative least squares: energy of a window = sum of power x time.
/// Waiting has a power of its own for each clock, where the windows tell these apart: a GPU that waits at its highest
/// clock draws far more than at a low one (an H100 122 W, and 70 W when idle), and units would be given the difference.
/// Standard errors are those of a Newey-West estimate with two lags around the solution (one value of the counter ends
/// a window and begins the next, so that errors of neighbours are anticorrelated; its quantisation is in the
/// residuals), with the non-negativity left aside, times windows / (windows - cells).
/// A cell is not identified when its column depends on others to 1e-5 of its length: ops that always run together in
/// the same proportion, or cells without any time. `blocking_w` is the power of waiting where it was measured apart.
/// Throws InputError when there are fewer windows than cells.
[[nodiscard]] EnergyRegression fit_energy(const EnergyWindows& windows, std::optional<double> blocking_w);

}  // namespace lowgear::profile
