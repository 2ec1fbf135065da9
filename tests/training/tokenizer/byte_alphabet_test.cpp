#include "training/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lowgear::tokenizer {
namespace {

TEST(ByteAlphabet, WritesBytesAsGpt2Does) {
  EXPECT_EQ(alphabet_from_bytes(" "), "Ġ");
  EXPECT_EQ(alphabet_from_bytes("\n"), "Ċ");
  EXPECT_EQ(alphabet_from_bytes("a~!"), "a~!");
  EXPECT_EQ(alphabet_from_bytes(std::string(1, '\0')), "Ā");
  EXPECT_EQ(alphabet_from_bytes("\x7f"), "ġ");
  EXPECT_EQ(alphabet_from_bytes("\xa0"), "ł");
  EXPECT_EQ(alphabet_from_bytes("\xad"), "Ń");
  EXPECT_EQ(alphabet_from_bytes("ö"), "Ã¶");
}

TEST(ByteAlphabet, ReadsEveryByteBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(bytes_from_alphabet(alphabet_from_bytes(bytes)), bytes);
}

TEST(ByteAlphabet, KnowsWhatIsNotOfIt) {
  for (const char* const token : {"a b", "\n", "ń", "\u0144", "€", "<｜x｜>", "\xff", "\u00ad"}) {
    EXPECT_EQ(bytes_from_alphabet(token), std::nullopt) << token;
  }
}

}  // namespace
}  // namespace lowgear::tokenizer
