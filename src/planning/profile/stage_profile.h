#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"

namespace lowgear::profile {

/// Most stages that a profile may have: far beyond any pipeline, and a bound on what a wrong number can allocate.
inline constexpr int kMaxStages = 65536;
/// Most settings of one (stage, kind, clock): beyond what anybody measures, and a bound on what reading a file costs.
inline constexpr std::size_t kMaxSettings = 1024;
/// Most that a recomputation may take of its forward's time and energy: beyond any that repeats it once.
inline constexpr double kMostRecomputation = 10;
/// Largest energy of one op.
inline constexpr double kMaxEnergyJ = 1e9;

/// One row of a stage profile: time and energy of one op of a stage at one locked SM clock and with one setting.
struct Measurement {
  int clock_mhz = 0;
  double time_s = 0;         ///< mean time of the op
  double energy_j = 0;       ///< mean energy of one GPU over that time
  std::string setting = {};  ///< what else it ran with (row_check.h); empty: nothing else was set
  int line = 0;              ///< of the file that it was read from, for messages; 0: none

  /// The same figures, wherever they were read.
  friend bool operator==(const Measurement& a, const Measurement& b) {
    return a.clock_mhz == b.clock_mhz && a.time_s == b.time_s && a.energy_j == b.energy_j && a.setting == b.setting;
  }
};

/// The rows of one (stage, kind) of a profile.
struct StageOp {
  int stage = 0;
  OpKind kind = OpKind::forward;
  std::span<const Measurement> measurements;  ///< highest clock first, of a clock the fastest first; never empty
};

/// Time and energy of every (stage, kind) of a pipeline at every profiled clock, and with every setting that was
/// profiled there. Stages are virtual stages when the schedule interleaves. Whoever knows clocks only means, at a
/// clock, its fastest setting.
class StageProfile {
 public:
  StageProfile() = default;
  /// Throws InputError unless `stages` is in [0, kMaxStages].
  explicit StageProfile(int stages);

  [[nodiscard]] int stages() const { return static_cast<int>(cells_.size()); }
  [[nodiscard]] bool has(int stage, OpKind kind) const;
  /// Highest clock first; of a clock the fastest setting first, each once. Empty when the profile has no such rows.
  [[nodiscard]] std::span<const Measurement> measurements(int stage, OpKind kind) const;
  /// Every (stage, kind) that has rows, stage by stage. Good until the profile changes.
  [[nodiscard]] std::vector<StageOp> ops() const;
  /// The measurement at the highest clock, with its fastest setting: what an unplanned run at full speed takes. Throws
  /// InputError when there is none.
  [[nodiscard]] const Measurement& at_max_clock(int stage, OpKind kind) const;
  /// The measurement at exactly this clock, with its fastest setting. Throws InputError naming stage, kind and the
  /// clocks that are there.
  [[nodiscard]] const Measurement& at_clock(int stage, OpKind kind, int clock_mhz) const;
  /// The measurement at exactly this clock with exactly this setting; null when there is none.
  [[nodiscard]] const Measurement* find(int stage, OpKind kind, int clock_mhz, std::string_view setting) const;
  /// The same. Throws InputError naming stage, kind, clock and setting when there is none.
  [[nodiscard]] const Measurement& at_setting(int stage, OpKind kind, int clock_mhz, std::string_view setting) const;
  /// Whether any row names a setting.
  [[nodiscard]] bool has_settings() const { return has_settings_; }

  /// Adds one row. Throws InputError when `stage` is out of range, the clock is there already with the same setting,
  /// the setting is not a name (row_check.h), a clock has kMaxSettings rows, or the clock, time or energy is not
  /// positive and finite (clock at most kMaxClockMhz, time from one picosecond to kMaxTimeS, energy at most
  /// kMaxEnergyJ).
  void add(int stage, OpKind kind, Measurement measurement);

  friend bool operator==(const StageProfile&, const StageProfile&) = default;

 private:
  std::vector<std::array<std::vector<Measurement>, kOpKindCount>> cells_;
  bool has_settings_ = false;
};

/// A profile whose `backward` rows are split into `input_gradient` (`fraction` of time and energy) and
/// `weight_gradient` (the rest), for zero-bubble schedules on a profile that was not measured split. `backward` stays.
/// Stages that were measured split keep their rows. Throws InputError unless `fraction` is in (0, 1).
[[nodiscard]] StageProfile with_split_backward(const StageProfile& profile, double fraction);

/// A profile whose stages all can recompute. `recomputation` rows that are missing are those of the forward times
/// `share`; without it they are not made up. `recomputing_backward` rows that are missing are the sums of the
/// backward's and the recomputation's at the clocks and settings that both have. Stages without a whole backward get no
/// `recomputing_backward`. Throws InputError unless `share` is in (0, kMostRecomputation].
[[nodiscard]] StageProfile with_recomputation(const StageProfile& profile, std::optional<double> share);

/// A profile with one row for each (stage, kind, clock): its fastest setting, as whoever knows clocks only runs it.
[[nodiscard]] StageProfile at_fastest_settings(const StageProfile& profile);

/// Throws InputError if the profile has settings: `who` ("lowgear profile --fill") works on clocks alone.
void refuse_settings(const StageProfile& profile, std::string_view who);

/// A profile of virtual stages from one of S stages, one for each rank: virtual stage v runs on rank `rank_of_stage[v]`
/// and takes an equal part of its stage's time and energy. For schedules with several stages a rank (interleaved, V) on
/// a profile that was not measured per virtual stage. Throws InputError when a rank is not one of the profile's stages,
/// or the stages become more than kMaxStages.
[[nodiscard]] StageProfile with_stages_on_ranks(const StageProfile& profile, std::span<const int> rank_of_stage);

/// How many of the first stages have forwards only, as those whose layers are all frozen; 0 where no stage has more.
[[nodiscard]] int forward_only_stages(const StageProfile& profile);

}  // namespace lowgear::profile
