#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "planning/workflow/comparison.h"

namespace lowgear::cli {

/// A comparison for people, and for programs.
[[nodiscard]] std::string comparison_table(const workflow::PolicyComparison& comparison);
/// The rows as clocks that change late leave them, in per cent of the baseline's; empty where that was not replayed.
[[nodiscard]] std::string late_table(const workflow::PolicyComparison& comparison);
[[nodiscard]] Json comparison_json(const workflow::PolicyComparison& comparison);

}  // namespace lowgear::cli
