#pragma once

#include <cstddef>
#include <string_view>

namespace lowgear {

/// The byte order mark that some programs put before UTF-8 text.
inline constexpr std::string_view kUtf8ByteOrderMark = "\xEF\xBB\xBF";

/// True for the second and later bytes of a character: every other byte starts one.
[[nodiscard]] constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Bytes of the character that `text` starts with; 0 when it starts with no valid UTF-8 (Unicode 15, table 3-7).
[[nodiscard]] std::size_t utf8_character_size(std::string_view text);

}  // namespace lowgear
