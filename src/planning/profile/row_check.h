#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// The power limit of the GPU model that a profile was measured on.
struct NamedPowerLimit {
  std::string gpu_name;
  double limit_w = 0;
};

/// Least power of a GPU that waits, and of one that computes, from the smallest embedded one on.
inline constexpr double kLeastBlockingW = 1;
inline constexpr double kLeastPowerW = 4;
/// One that trains draws at least this share of its limit: idle ones draw less.
inline constexpr double kLeastOfLimit = 0.1;

/// SM clocks that GPUs have, from the smallest embedded ones (77 MHz) on: the fastest of 2026 boost to 3.2 GHz.
inline constexpr int kLowestSmClockMhz = 50;
inline constexpr int kHighestSmClockMhz = 5000;

/// The least power of a GPU with this limit that trains; empty: of any.
[[nodiscard]] double least_training_power_w(std::optional<double> limit_w);
/// The highest power that a profile of this GPU shows.
[[nodiscard]] double highest_profiled_power_w(const std::optional<NamedPowerLimit>& gpu);
/// `more than the power limit of NVIDIA A40 (300 W)`, or that no GPU draws so much.
[[nodiscard]] std::string excess_text(const std::optional<NamedPowerLimit>& gpu);

enum class PowerFault { none, above_limit, below_waiting };

/// A row of a profile that contradicts what GPUs do.
struct RowFinding {
  int stage = 0;
  OpKind kind = OpKind::forward;
  Measurement row;
  std::string what;            ///< the row's figure and the one that it contradicts, both with their values
  bool is_impossible = false;  ///< no GPU can have measured it; otherwise it is unlikely
  PowerFault power = PowerFault::none;
};

/// The rows that contradict
/// - the GPU: more power than its limit (an error from kPowerLimitOvershoot times the limit on, or kHighestGpuPowerW),
///   less than `waiting_w`, which one draws that waits (0: not known), or than any GPU;
/// - their neighbours, with the same setting: an op that is slower at a higher clock, gains more than the clock does,
///   draws less at a higher clock, or more than the cube of the clock allows, beyond the noise of published profiles.
///   A power limit or heat can make a clock slower, but not several times. Of two neighbours that contradict each other
///   it is the row without which the others agree;
/// - the op's rows with other settings: a time far from their median;
/// - the other ops: power at a clock far from their median, or from that of all rows where the clock has few.
/// Ops too short to measure (kShortestUnitS) are only held against the highest power; a short row of an op whose other
/// rows are long is not exempt. A row is listed once, impossible ones first, else in the order of the profile.
[[nodiscard]] std::vector<RowFinding> check_rows(const StageProfile& profile, double waiting_w,
                                                 const std::optional<NamedPowerLimit>& gpu);

/// The fault of a time or an energy, in a form for messages; empty if it is in range.
[[nodiscard]] std::optional<std::string> problem_with_time(double time_s);
[[nodiscard]] std::optional<std::string> problem_with_energy(double energy_j);

/// Longest setting: one choice for each of some dozens of parts.
inline constexpr std::size_t kMaxSettingBytes = 512;

/// The fault of a setting's name, in a form for messages; empty if the name is valid. A setting is what an op is
/// run with besides its SM clock: a power limit, a memory clock, the SMs of a collective, a variant of a kernel. Its
/// name is the user's, empty or 1 to kMaxSettingBytes of `A-Z a-z 0-9 . _ = ; : + / @ -`, of which the first is a
/// letter or a digit: it passes through CSV, JSON, HTML and spreadsheets as it is.
[[nodiscard]] std::optional<std::string> problem_with_setting(std::string_view setting);

}  // namespace lowgear::profile
