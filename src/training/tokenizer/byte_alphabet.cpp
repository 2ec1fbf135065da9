#include "training/tokenizer/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/core/utf8.h"

namespace lowgear::tokenizer {
namespace {

constexpr bool is_written_as_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The code points of the alphabet are those below this.
constexpr std::size_t kCodePoints = 0x144;
constexpr std::int16_t kNoByte = -1;

constexpr std::array<unsigned, 256> kCodePointOfByte = [] {
  std::array<unsigned, 256> code_points = {};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) code_points[byte] = is_written_as_itself(byte) ? byte : next++;
  return code_points;
}();

constexpr std::array<std::int16_t, kCodePoints> kByteOfCodePoint = [] {
  std::array<std::int16_t, kCodePoints> bytes = {};
  bytes.fill(kNoByte);
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kCodePointOfByte[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::size_t size = utf8_character_size(token);
    if (size == 0 || size > 2) return std::nullopt;
    const auto first = static_cast<unsigned char>(token[0]);
    const unsigned code_point =
        size == 1 ? first : (first & 0x1FU) << 6U | (static_cast<unsigned char>(token[1]) & 0x3FU);
    if (code_point >= kCodePoints || kByteOfCodePoint[code_point] == kNoByte) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOfCodePoint[code_point]));
    token.remove_prefix(size);
  }
  return bytes;
}

std::string alphabet_from_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) {
    const unsigned code_point = kCodePointOfByte[static_cast<unsigned char>(byte)];
    if (code_point < 0x80) {
      token.push_back(static_cast<char>(code_point));
    } else {
      token.push_back(static_cast<char>(0xC0U | code_point >> 6U));
      token.push_back(static_cast<char>(0x80U | (code_point & 0x3FU)));
    }
  }
  return token;
}

}  // namespace lowgear::tokenizer
