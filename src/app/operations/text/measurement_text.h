#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "hardware/measure/measurement.h"

namespace lowgear::operations {

/// A measurement as one object: SI units in the names of its members, absent members for what was not reported.
[[nodiscard]] Json measurement_json(const measure::WindowMeasurement& measurement);

/// A measurement for people: a line per GPU and CPU domain, and the sum.
[[nodiscard]] std::string measurement_text(const measure::WindowMeasurement& measurement);

}  // namespace lowgear::operations
