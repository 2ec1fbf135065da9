#include "planning/profile/setting.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"

namespace lowgear::profile {
namespace {

bool is_letter_or_digit(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9');
}

bool is_allowed(char character) {
  return is_letter_or_digit(character) || std::string_view("._=;:+/@-").find(character) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> problem_with_setting(std::string_view setting) {
  if (setting.empty()) return std::nullopt;
  if (setting.size() > kMaxSettingBytes) {
    return fmt::format("a setting of {} characters is longer than {}", setting.size(), kMaxSettingBytes);
  }
  if (is_letter_or_digit(setting.front()) && std::ranges::all_of(setting, is_allowed)) return std::nullopt;
  return fmt::format(
      "the setting {} has a character that is not allowed: it begins with a letter or a digit, and has letters, digits "
      "and . _ = ; : + / @ -",
      quote(std::string(setting)));
}

}  // namespace lowgear::profile
