#pragma once

#include <string>

namespace lowgear {

/// Of this build: `0.1.0`.
[[nodiscard]] std::string version();

}  // namespace lowgear
