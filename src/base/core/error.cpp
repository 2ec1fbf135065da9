#include "base/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/core/text.h"

namespace lowgear {
namespace {

/// Control characters, and those that end a line or change the direction of the text: a line has to stay one line that
/// reads as it is written, also for programs that follow Unicode's rules.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;  // U+0080..U+009F
  if (byte(0) != 0xE2) return false;
  const bool separates = byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE;  // U+2028..U+202E
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;   // U+2066..U+2069
  return separates || isolates;
}

}  // namespace

std::string to_string(const SourceLocation& where) {
  if (where.line <= 0) return where.source;
  if (where.column <= 0) return fmt::format("{}:{}", where.source, where.line);
  return fmt::format("{}:{}:{}", where.source, where.line, where.column);
}

void throw_input_error(const SourceLocation& where, std::string_view what, std::string_view fix) {
  std::string problem(what);
  if (!fix.empty()) fmt::format_to(std::back_inserter(problem), "; {}", fix);
  std::string message = printable(to_string(where), std::string_view::npos);
  if (!message.empty()) message += ": ";
  message += problem;
  throw LocatedError(message, where, std::move(problem));
}

std::string printable(std::string_view text, std::size_t max_characters) {
  std::string result;
  for (std::size_t characters = 0; !text.empty(); ++characters) {
    if (characters == max_characters) return result + "...";
    const std::size_t valid = utf8_character_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(valid, 1));
    if (valid > 0 && !is_control(character)) {
      result += character;
    } else {
      for (const char byte : character) {
        fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(character.size());
  }
  return result;
}

std::string quote(std::string_view text) {
  constexpr std::size_t kMaxQuotedCharacters = 60;
  return fmt::format("\"{}\"", printable(text, kMaxQuotedCharacters));
}

SourceLocation locate(std::string_view text, std::size_t offset, std::string source) {
  offset = std::min(offset, text.size());
  SourceLocation where{std::move(source), 1, 1};
  std::size_t at = text.starts_with(kUtf8ByteOrderMark) ? kUtf8ByteOrderMark.size() : 0;
  for (; at < offset; ++at) {
    const bool second_of_crlf = text[at] == '\n' && at > 0 && text[at - 1] == '\r';
    if (second_of_crlf) continue;
    if (text[at] == '\n' || text[at] == '\r') {
      ++where.line;
      where.column = 1;
    } else if (!is_utf8_continuation(text[at])) {
      ++where.column;
    }
  }
  return where;
}

}  // namespace lowgear
