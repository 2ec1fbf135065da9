#pragma once

#include <string>
#include <vector>

namespace lowgear::cli {

/// Blocking power of each stage in watts, from what the user gave: a number for all stages, or the path of a CSV with
/// the columns `stage,blocking_power` (W), as `read_blocking_power` takes it. Throws InputError when it is neither, or
/// as `read_blocking_power` does.
[[nodiscard]] std::vector<double> blocking_power_from_argument(const std::string& argument, int stages);

}  // namespace lowgear::cli
