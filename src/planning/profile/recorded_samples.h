#pragma once

#include <string>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::profile {

/// What the samples of a recording say against its units, one line each: clocks that were asked for and are not those
/// that the GPU reports, where it had time to settle; and units of times without samples, as where both files are of
/// different clocks or jobs, or samples were lost.
[[nodiscard]] std::vector<std::string> sample_doubts(const Recording& recording);

}  // namespace lowgear::profile
