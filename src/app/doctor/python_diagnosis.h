#pragma once

#include <vector>

#include "app/doctor/diagnosis.h"
#include "app/doctor/python_facts.h"

namespace lowgear::doctor {

/// Conclusions from what is known of the Python that would run a job, in reading order. None is `broken`: whatever is
/// wrong with it, Lowgear measures.
[[nodiscard]] std::vector<Finding> diagnose_python(const PythonFacts& facts);

}  // namespace lowgear::doctor
