#include "base/core/formats/gpu_uuid.h"

#include <algorithm>
#include <cctype>

namespace lowgear {

std::string normal_gpu_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  constexpr std::size_t kAlone = 36;
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return std::string(text);
  std::string uuid(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
  if (uuid.size() == kAlone && uuid[8] == '-' && uuid[13] == '-') uuid.insert(0, "GPU-");
  std::string prefix = uuid.substr(0, kPrefix);
  std::ranges::transform(prefix, prefix.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const auto is_digit = [](unsigned char letter) { return letter == '-' || std::isxdigit(letter) != 0; };
  if (prefix != "GPU-" && prefix != "MIG-") return std::string(text);
  if (!std::all_of(uuid.begin() + kPrefix, uuid.end(), is_digit)) return std::string(text);
  std::ranges::transform(uuid, uuid.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return uuid.replace(0, kPrefix, prefix);
}

}  // namespace lowgear
