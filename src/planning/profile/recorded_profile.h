#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/energy_regression.h"
#include "planning/profile/recording.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// A (stage, kind, clock) as all ranks of the stage recorded it.
struct RecordedCell {
  CellKey key;
  int ranks = 0;            ///< that ran it: those of data and tensor parallelism
  long long units = 0;      ///< of all ranks
  double time_s = 0;        ///< of the slowest rank's mean, as a pipeline waits for it
  double time_error_s = 0;  ///< standard error of that mean
  double power_w = 0;       ///< mean over ranks
  double energy_j = 0;      ///< of one GPU: mean over ranks of power x mean time
  double energy_error_j = 0;
  double shared_error_j = 0;  ///< the part of `energy_error_j` that more iterations do not lower
  double time_variation = 0;  ///< standard deviation over mean of single units, largest over ranks
  /// Share of the samples during these units that say the GPU was held back (power, heat); empty when not reported.
  std::optional<double> throttled_share;
  std::optional<double> sampled_mhz = {};  ///< mean SM clock of these samples; empty when not reported
  bool is_identified = true;               ///< on every rank: its energy can be distinguished from that of other cells

  bool is_possible = true;  ///< some GPU can have run it so (`check_rows`)

  /// Whether it is a row of the profile.
  [[nodiscard]] bool has_row() const { return is_identified && is_possible && energy_j > 0; }
  /// In more than a tenth of the samples.
  [[nodiscard]] bool is_throttled() const { return throttled_share.value_or(0) > 0.1; }
  [[nodiscard]] Measurement measurement() const { return {key.clock_mhz, time_s, energy_j}; }
};

/// Power of a waiting GPU of a stage.
struct RecordedBlocking {
  int stage = 0;
  double power_w = 0;  ///< mean over ranks
  double error_w = 0;
  bool is_identified = true;
  std::optional<double> most_computing_w = {};  ///< highest power of the stage's computations, where it is known
  /// By the clock at which it waited, mean over ranks; empty unless all ranks know it well at several clocks.
  std::map<int, double> power_w_by_clock = {};

  /// Why this value is not usable for planning: it cannot be distinguished from that of computing, its error is above
  /// 20 %, or it is above the power of computing. Empty if it is usable.
  [[nodiscard]] std::string doubt() const;
};

struct RecordedProfile {
  std::vector<RecordedCell> cells;  ///< in the order of their keys
  std::vector<RecordedBlocking> blocking;
  std::vector<std::string> warnings;  ///< what to know before trusting it, one line each
  bool simulated = false;

  /// The rows of a stage profile. Those of cells that have one.
  [[nodiscard]] StageProfile profile() const;
};

struct ProfilingOptions {
  int skipped_iterations = 2;  ///< first ones of every part of a recording: warm-up; negative iterations always are
  std::optional<double> blocking_w = {};  ///< where it was measured apart
  std::optional<int> stages = {};         ///< of the job's schedule; empty: not known
  std::optional<int> microbatches = {};   ///< of it, in an iteration; empty: not known
  /// The clock of units for which none was requested, as those of a GPU that chose its own; empty: they are left out.
  std::optional<int> own_clock_mhz = {};
};

/// Puts the recordings of all ranks together, of each rank all its parts: time per cell from its units, energy from
/// `fit_energy` of each rank. A rank's blocking power counts for the stages that it runs. Units of iterations in which
/// clocks settled are left out, and with a warning those for which no clock was asked, unless `own_clock_mhz` states
/// it. Input and weight gradients that take less than kShortestUnitS (the first stage's input gradient in PyTorch) are
/// 1 us and 1 uJ at every clock, with a warning. Times that rise with the clock within their errors are repaired
/// (`monotone_times`), with a warning, at the power that was measured. Energies whose clock is not that of the units
/// are shifted (`find_energy_shift_s`), with a warning. Warns of throttling, spread, few units, lost units
/// (`leave_out_incomplete`), files that were cut off, large errors, powers of waiting that are in doubt, cells that
/// cannot be distinguished or contradict others (`check_rows`), missing ranks, ranks that draw notably less or more
/// than others, samples that contradict units (`sample_doubts`), and energies that cannot be right or were not compared
/// (`settle_energy`). Cells that no GPU can have run are left out. Throws InputError when nothing is left of a
/// recording, or as `check_ranks`, `settle_energy`, `energy_windows` and `fit_energy` do.
[[nodiscard]] RecordedProfile profile_recordings(std::span<const Recording> recordings,
                                                 const ProfilingOptions& options);

/// The same of the parts of one rank, as a rank makes it of its own units: it stands for its stages alone, and ranks
/// that are not given are not missing.
[[nodiscard]] RecordedProfile profile_one_rank(std::span<const Recording> parts, const ProfilingOptions& options);

/// By stage, as a profile's column states it; empty where one of the stages has none, or one that is in doubt.
[[nodiscard]] std::vector<double> usable_blocking_power_w(std::span<const RecordedBlocking> blocking, int stages);

/// `stage,blocking_power`, as `read_blocking_power` takes it, for stages 0 to the last. Throws InputError when one is
/// in doubt.
[[nodiscard]] std::string write_blocking_power(std::span<const RecordedBlocking> blocking);

}  // namespace lowgear::profile
