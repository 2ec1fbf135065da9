#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// Ranks as people list them: `rank 3`, `ranks 1, 4 to 7`. Sorted, none twice, not empty.
[[nodiscard]] std::string ranks_text(std::span<const int> ranks);

/// The ranks of a job that were recorded in no part, by the world size that the recordings state. Where their launcher
/// stated none (rank + 1 stands for it), those below the highest. Throws InputError where recordings of a part are of
/// different jobs or world sizes, or of one rank, or some are simulated and some not.
[[nodiscard]] std::vector<int> missing_ranks(std::span<const Recording> recordings);

/// `ranks 1, 3 of 4 have no recording`; empty where none is missing. Throws as `missing_ranks` does.
[[nodiscard]] std::string missing_text(std::span<const Recording> recordings);

/// Warnings about recordings whose energies are added up by rank, one line each. Throws InputError as
/// `missing_ranks` does, where two ranks of a part ran on one GPU, whose counter counts both, or a rank on an instance
/// of one (MIG), whose energy is not known; and where a missing rank may have run a stage that no other one has
/// recorded. `stages` of the job's schedule; empty: not known. Then a stage may be missing unless no larger number of
/// stages fits the world size, with as many ranks for each.
[[nodiscard]] std::vector<std::string> check_ranks(std::span<const Recording> recordings, std::optional<int> stages);

/// Whether the units of one recording are complete.
struct UnitCheck {
  int microbatches = 0;               ///< of most iterations
  std::vector<std::string> warnings;  ///< one line each
};

/// Marks iterations as settling that have other units than most, and those before numbers that are missing, so that
/// neither their units nor the energies around them count: energy of a unit that was lost would count as waiting. Only
/// iterations with a backward for each forward stand for the others. Warns of these, and of units that every iteration
/// lacks as far as that shows. So are iterations with a backward that begins before its forward has ended; throws
/// InputError where all are such.
[[nodiscard]] UnitCheck leave_out_incomplete(Recording& recording);

}  // namespace lowgear::profile
