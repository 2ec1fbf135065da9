#pragma once

#include <string>
#include <vector>

#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/python_facts.h"

namespace lowgear::operations::doctor {

/// Conclusions from what is known of the Python that would run a job, in reading order. None is `broken`: whatever is
/// wrong with it, Lowgear measures.
[[nodiscard]] std::vector<Finding> diagnose_python(const PythonFacts& facts);

/// What to run next where a framework is observed, as one line; empty where none is.
[[nodiscard]] std::string next_step(const PythonFacts& facts);

}  // namespace lowgear::operations::doctor
