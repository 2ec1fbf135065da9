#pragma once

#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// What the units of one recording say of their being all there.
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
