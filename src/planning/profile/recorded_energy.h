#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// Decides where the energies of a recording come from. Its counter is compared with the power readings next to it over
/// the whole recording and over a dozen stretches of it. The counter is used where both agree. A part in which they
/// differ by more than in the rest is set aside (Recording::set_aside). Where they contradict each other, the one that
/// cannot be right by itself loses: a counter that stands still or shows more than the GPU can draw, power readings
/// that never change while the counter's steps do. If both can be, integrated power readings are used, with their
/// difference as the error of all energies. Power readings of 0 W or above anything possible are left out. Each of this
/// is a warning with both figures; what could not be compared is Recording::uncompared. Throws InputError for a counter
/// that cannot be right where power readings cannot take its place.
void settle_energy(Recording& recording);

/// `energies of ranks 0, 1 were not compared with power readings: REASON`, a line for each reason.
[[nodiscard]] std::vector<std::string> uncompared_energies(std::span<const Recording> recordings);

}  // namespace lowgear::profile
