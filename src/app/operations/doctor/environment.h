#pragma once

#include <string>
#include <string_view>

#include "base/core/environment.h"

namespace lowgear::operations::doctor {

/// A variable of this process's environment; empty where it is not set.
inline std::string environment(std::string_view name) { return process_environment()(name).value_or(""); }

}  // namespace lowgear::operations::doctor
