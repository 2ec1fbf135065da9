#pragma once

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// Decides where the energies of a recording come from: its counter, where that agrees with the power readings next to
/// it over every 10 s and no step of it is more than the GPU can draw (`check_energy`); otherwise the integrated power
/// readings, which take the place of the counter's values and are known to kIntegratedPowerError. A warning says which,
/// with both figures, and one says so where the two differ notably. Throws InputError for a counter that cannot be
/// right where there are no power readings.
void settle_energy(Recording& recording);

}  // namespace lowgear::profile
