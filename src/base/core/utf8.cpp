#include "base/core/utf8.h"

namespace lowgear {
namespace {

/// What the first byte of a character says of it. The range of the second byte keeps out overlong forms, surrogates and
/// code points beyond U+10FFFF.
struct Lead {
  std::size_t size = 0;
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

std::size_t utf8_character_size(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<unsigned char>(text.front()));
  if (text.size() < lead.size) return 0;
  if (lead.size < 2) return lead.size;
  const auto second = static_cast<unsigned char>(text[1]);
  if (second < lead.second_low || second > lead.second_high) return 0;
  for (std::size_t i = 2; i < lead.size; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
  }
  return lead.size;
}

}  // namespace lowgear
