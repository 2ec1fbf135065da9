#pragma once

#include <string>
#include <string_view>

namespace lowgear {

/// What stands for the GPU: programs write the digits of one UUID in upper or lower case. To compare with, not to show.
[[nodiscard]] inline std::string gpu_identity(std::string_view uuid) {
  std::string identity(uuid);
  for (char& letter : identity) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return identity;
}

}  // namespace lowgear
