#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/plausibility.h"
#include "planning/profile/predicted_rows.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// Values of stages that a profile's file may state in columns of their own. Rows of a stage may leave the cell empty;
/// of different values the largest counts.
struct StageColumns {
  /// `activation_bytes`: bytes of one microbatch's activations on a GPU, by stage; empty: not stated.
  std::vector<double> activation_bytes = {};
  /// `transfer` (s): time of a message between a stage and the next one once both sides are ready, by the first of
  /// both, one less than stages; empty: not stated.
  std::vector<double> transfer_s = {};
  /// `blocking_power` (W): power of a GPU of the stage while it waits, by stage; empty: not stated.
  std::vector<double> blocking_power_w = {};

  friend bool operator==(const StageColumns&, const StageColumns&) = default;
};

/// The CSV file of a stage profile, as Perseus and Zeus write it, with Lowgear's optional columns (docs/formats.md).
struct ProfileFile {
  std::string source = {};    ///< its path, for messages
  StageProfile profile = {};  ///< ranks of a stage merged
  StageColumns columns = {};
  /// `switch_latency` (s): time until a clock change takes effect on the GPUs that were measured; empty: not stated.
  std::optional<double> switch_latency_s = {};
  /// Rows that the column `origin` marks, with their `time_error` (s) and `energy_error` (J) where the file states
  /// them.
  std::vector<PredictedRow> predicted = {};
  bool simulated = false;  ///< other rows are of simulated GPUs, as the column `origin` says
  /// The profile of each rank where the file has the column `rank`, else that of all; stages and kinds may be missing.
  std::vector<StageProfile> ranks = {};
  /// Rows that merging the ranks of a stage leaves out, ranks that contradict each other, and columns that nothing
  /// reads.
  std::vector<std::string> doubts = {};
};

/// Reads columns `stage,instruction,frequency,time,energy` in any order (0-based stage; the names of op kinds; MHz; s;
/// J of one GPU). Rows of `load` are skipped. With a column `rank`, ranks of a stage are merged; with a column
/// `setting`, a clock may have several rows. Throws InputError with file, line and column on
/// - duplicates, values out of range, and stages that are not 0..S-1,
/// - rows that no GPU can have measured (plausibility.h),
/// - a stage without forward, with neither backward nor the pair input_gradient, weight_gradient (the first stages may
///   have neither, where all their layers are frozen; the last one may not), or with half of the pair,
/// - values that some stages state and others do not,
/// - a file without rows.
[[nodiscard]] ProfileFile read_profile_file(std::string_view text, const std::string& source,
                                            ImpossibleUnits units = ImpossibleUnits::refuse);

/// The text of `profile`, `columns` and `switch_latency_s`: stage by stage, highest clock first, with enough digits to
/// be read back unchanged. A column is written only where it has values.
[[nodiscard]] std::string write_profile_file(const ProfileFile& file);

/// Reasons to doubt the file's figures, one line each: its own doubts, those of `profile_doubts` about each rank and
/// about the whole, and transfers that take far longer than their stage computes. Every command that shows figures of a
/// profile prints them. `context.source` is ignored: the file's own holds.
[[nodiscard]] std::vector<std::string> profile_doubts(const ProfileFile& file, ProfileContext context);

}  // namespace lowgear::profile
