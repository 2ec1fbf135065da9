#pragma once

#include <string_view>

namespace lowgear {

/// Writes all of it to a file descriptor, however many calls that takes. Returns errno, 0 when all is written.
[[nodiscard]] int write_all(int descriptor, std::string_view content);

}  // namespace lowgear
