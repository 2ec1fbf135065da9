#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/recording.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// What a stage profile's CSV may state of its stages in columns of their own. Rows of a stage may leave the cell
/// empty; of different values the largest counts.
struct StageColumns {
  /// `activation_bytes`: bytes that the activations of one microbatch take on a GPU, by stage; empty: not stated.
  std::vector<double> activation_bytes = {};
  /// `transfer` (s): time of a message between a stage and the next one once both sides are ready, by the first of
  /// both, one less than stages; empty: not stated.
  std::vector<double> transfer_s = {};

  friend bool operator==(const StageColumns&, const StageColumns&) = default;
};

/// Throws InputError with file, line and column on what is no number of bytes above 0, no time in [0, 1000] s, or no
/// stage, and when some stages state activations, or some but the last one transfers, and others do not.
[[nodiscard]] StageColumns read_stage_columns(std::string_view text, const std::string& source);

/// Whether a message takes far longer than what a stage computes between two of them, as it does in other units.
[[nodiscard]] std::optional<std::string> transfer_doubt(const StageColumns& columns, const StageProfile& profile,
                                                        const std::string& source);

/// `profile_csv` as `write_stage_profile` writes it, with the columns that are stated.
[[nodiscard]] std::string with_stage_columns(const std::string& profile_csv, const StageColumns& columns);

/// The file in a rank's folder of a recording.
inline constexpr const char* kActivationsFile = "activations.csv";

/// Reads that file: `iteration,stage,activation_bytes`. Throws InputError with file, line and column on a number that
/// is out of range, 0 bytes, and a stage that occurs twice in an iteration.
[[nodiscard]] std::vector<RecordedActivations> read_recorded_activations(std::string_view text,
                                                                         const std::string& source);
/// The same as text.
[[nodiscard]] std::string write_recorded_activations(std::span<const RecordedActivations> measured);

/// Activations that the recordings of a profile's ranks state together.
struct StageActivations {
  /// Bytes of one microbatch's activations by stage: the largest of all its ranks and iterations. Empty: not of every
  /// stage.
  std::vector<double> bytes;
  std::string warning;  ///< why the others are unknown where some are stated; may be empty
};

/// The activations of a profile with `stages` stages.
[[nodiscard]] StageActivations activations_by_stage(std::span<const Recording> ranks, int stages);

}  // namespace lowgear::profile
