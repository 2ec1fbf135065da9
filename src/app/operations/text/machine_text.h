#pragma once

#include <string>
#include <vector>

#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/python_check.h"
#include "app/operations/doctor/sharing_check.h"
#include "base/core/formats/json.h"
#include "hardware/measure/measurement.h"

namespace lowgear::operations {

enum class Colours : unsigned char { off, on };

/// One line per finding, its fix on a line below, a verdict at the end.
[[nodiscard]] std::string diagnosis_text(const std::vector<doctor::Finding>& findings, Colours colours);

/// The member `sharing` of `lowgear doctor --json`: whether jobs can share GPUs.
[[nodiscard]] Json sharing_json(const doctor::SharingFacts& sharing);

/// Facts and findings, as `lowgear doctor --json` prints them.
[[nodiscard]] Json diagnosis_json(const doctor::MachineFacts& facts, const doctor::PythonFacts& python,
                                  const std::vector<doctor::Finding>& findings);

/// A measurement as one object: SI units in the names of its members, without members for quantities that were not
/// reported.
[[nodiscard]] Json measurement_json(const measure::WindowMeasurement& measurement);

/// A measurement for people: a line per GPU and CPU domain, and the sum.
[[nodiscard]] std::string measurement_text(const measure::WindowMeasurement& measurement);

}  // namespace lowgear::operations
