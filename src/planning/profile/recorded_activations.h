#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

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
