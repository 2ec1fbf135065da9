#include "base/core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lowgear {
namespace {

/// The bytes of a code point by the definition of UTF-8, without the checks of what may be encoded.
std::string encode(unsigned code_point) {
  const auto tail = [](unsigned bits) { return static_cast<char>(0x80U | (bits & 0x3FU)); };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xC0U | (code_point >> 6U)), tail(code_point)};
  if (code_point < 0x10000) {
    return {static_cast<char>(0xE0U | (code_point >> 12U)), tail(code_point >> 6U), tail(code_point)};
  }
  return {static_cast<char>(0xF0U | (code_point >> 18U)), tail(code_point >> 12U), tail(code_point >> 6U),
          tail(code_point)};
}

TEST(Utf8, TakesEveryCodePointAndNoSurrogate) {
  for (unsigned code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    const std::string bytes = encode(code_point);
    const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
    ASSERT_EQ(utf8_character_size(bytes + "x"), surrogate ? 0 : bytes.size()) << code_point;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      ASSERT_EQ(utf8_character_size(std::string_view(bytes).substr(0, cut)), 0) << code_point;
    }
  }
}

TEST(Utf8, RefusesBeyondTheLastCodePoint) {
  EXPECT_EQ(utf8_character_size(encode(0x110000)), 0);
  EXPECT_EQ(utf8_character_size("\xF5\x80\x80\x80"), 0);
}

TEST(Utf8, RefusesOverlongForms) {
  EXPECT_EQ(utf8_character_size("\xC0\x80"), 0);
  EXPECT_EQ(utf8_character_size("\xC1\xBF"), 0);
  EXPECT_EQ(utf8_character_size("\xE0\x9F\xBF"), 0);
  EXPECT_EQ(utf8_character_size("\xF0\x8F\xBF\xBF"), 0);
}

TEST(Utf8, RefusesBytesThatStartNoCharacter) {
  EXPECT_EQ(utf8_character_size(""), 0);
  EXPECT_EQ(utf8_character_size("\x80"), 0);
  EXPECT_EQ(utf8_character_size("\xFF"), 0);
  EXPECT_EQ(utf8_character_size("\xC3("), 0);
}

}  // namespace
}  // namespace lowgear
