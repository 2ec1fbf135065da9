#include "base/core/formats/gpu_uuid.h"

#include <algorithm>
#include <cctype>

namespace lowgear {

std::string normal_gpu_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  std::string uuid(text);
  std::string prefix = uuid.substr(0, kPrefix);
  std::ranges::transform(prefix, prefix.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const auto is_digit = [](unsigned char letter) { return letter == '-' || std::isxdigit(letter) != 0; };
  if (prefix != "GPU-" && prefix != "MIG-") return uuid;
  if (!std::all_of(uuid.begin() + kPrefix, uuid.end(), is_digit)) return uuid;
  std::ranges::transform(uuid, uuid.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return uuid.replace(0, kPrefix, prefix);
}

}  // namespace lowgear
