#pragma once

#include <string>

namespace lowgear {

/// Version of this build: `0.1.0`.
[[nodiscard]] std::string version();

}  // namespace lowgear
