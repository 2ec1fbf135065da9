#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "report/experiment/arm_comparison.h"
#include "report/report/html_page.h"

namespace lowgear::operations {

/// Says that the energy is simulated, or that there is none.
[[nodiscard]] std::string basis_text(const experiment::ArmComparison& comparison);

/// Tables for the terminal: quantities of all arms, their differences from the baseline with verdicts, and remarks.
[[nodiscard]] std::string arms_text(const experiment::ArmComparison& comparison);

/// The comparison as an object of the format `lowgear.arms/1` (docs/formats.md).
[[nodiscard]] Json arms_json(const experiment::ArmComparison& comparison);

/// The page of a comparison of runs.
[[nodiscard]] report::Page arms_page(const experiment::ArmComparison& comparison, std::string command);

/// A difference in percent with its sign, `-12.34 %`; differences that round to zero are `+0.00 %`.
[[nodiscard]] std::string change_text(double pct);

}  // namespace lowgear::operations
