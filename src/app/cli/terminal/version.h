#pragma once

#include <string_view>

namespace lowgear::cli {

/// Of the program: `0.1.0`.
[[nodiscard]] std::string_view version();

}  // namespace lowgear::cli
