#pragma once

#include <algorithm>
#include <string_view>

namespace lowgear::server {

inline constexpr std::string_view kBlanks = " \t\r";

/// The first word of a line, taken off it; empty when there is none.
inline std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

/// Whether a word is left.
inline bool has_word(std::string_view text) { return text.find_first_not_of(kBlanks) != std::string_view::npos; }

}  // namespace lowgear::server
