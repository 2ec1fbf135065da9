#pragma once

#include <string>
#include <string_view>

#include "planning/planner/exponential/perseus_options.h"

namespace lowgear::planner {

/// Reads the file of lowtime's --initial-guess: a Python or JSON literal with a list of (scale J, rate per time unit,
/// offset J) by stage for each instruction, {"Forward": [(1e2, -0.02, 10), ...], "Backward": [...]}. Parsed as data,
/// never evaluated; comments are skipped. Throws InputError with line and column, also for more stages than
/// profile::kMaxStages.
[[nodiscard]] InitialGuess read_initial_guess(std::string_view text, const std::string& source);

}  // namespace lowgear::planner
