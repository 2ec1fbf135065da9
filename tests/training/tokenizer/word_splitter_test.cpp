#include "training/tokenizer/word_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words(SplitPattern pattern, std::string_view text) {
  std::vector<std::string> words;
  WordSplitter(pattern).split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}
std::vector<std::string> gpt2(std::string_view text) { return words(SplitPattern::gpt2, text); }
std::vector<std::string> llama3(std::string_view text) { return words(SplitPattern::llama3, text); }

TEST(WordSplitter, SplitsAsGpt2) {
  EXPECT_THAT(gpt2("Hello world's  end, 1234!\n\n  x"),
              ElementsAre("Hello", " world", "'s", " ", " end", ",", " 1234", "!", "\n\n ", " x"));
  EXPECT_THAT(gpt2("it'S we'll"), ElementsAre("it", "'", "S", " we", "'ll"));
  EXPECT_THAT(gpt2("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(gpt2(""), ElementsAre());
}

TEST(WordSplitter, SplitsAsLlama3) {
  EXPECT_THAT(llama3("Hello world's  end, 1234!\n\n  x"),
              ElementsAre("Hello", " world", "'s", " ", " end", ",", " ", "123", "4", "!\n\n", " ", " x"));
  EXPECT_THAT(llama3("it'S (word) \n  \n y"), ElementsAre("it", "'S", " (", "word", ")", " \n  \n", " y"));
  EXPECT_THAT(llama3("\tx\r\n"), ElementsAre("\tx", "\r\n"));
}

TEST(WordSplitter, KnowsTheLettersAndNumbersOfUnicode) {
  EXPECT_THAT(gpt2("Größe привет 你好 ١٢٣ ½Ⅻ"), ElementsAre("Größe", " привет", " 你好", " ١٢٣", " ½Ⅻ"));
  EXPECT_THAT(llama3("١٢٣٤"), ElementsAre("١٢٣", "٤"));
  // A combining mark is no letter.
  EXPECT_THAT(gpt2("e\u0301t"), ElementsAre("e", "\u0301", "t"));
  EXPECT_THAT(gpt2("😀😀x"), ElementsAre("😀😀", "x"));
}

TEST(WordSplitter, TakesTheWhiteSpaceOfUnicode) {
  EXPECT_THAT(gpt2("a\u00a0\u2003b"), ElementsAre("a", "\u00a0", "\u2003", "b"));
  EXPECT_THAT(gpt2("a\u0085b\vc"), ElementsAre("a", "\u0085", "b", "\v", "c"));
  // U+180E has been no white space since Unicode 6.3: it is one of the others, and takes the blank before it.
  EXPECT_THAT(gpt2("a \u180e b"), ElementsAre("a", " \u180e", " b"));
  EXPECT_THAT(gpt2("a\u200bb"), ElementsAre("a", "\u200b", "b"));
}

TEST(WordSplitter, IgnoresCaseAsUnicodeDoes) { EXPECT_THAT(llama3("I'LL it'ſ"), ElementsAre("I", "'LL", " it", "'ſ")); }

TEST(WordSplitter, PutsBytesThatAreNoUtf8IntoWordsOfTheirOwn) {
  EXPECT_THAT(gpt2("ab\xff\xfe"
                   "cd"),
              ElementsAre("ab", "\xff\xfe", "cd"));
  EXPECT_THAT(gpt2("\xc3"), ElementsAre("\xc3"));
  EXPECT_THAT(llama3(std::string_view("a\0b", 3)), ElementsAre("a", std::string("\0b", 2)));
}

/// Time and stack must not grow faster than the text: 1 MiB of one kind each.
TEST(WordSplitter, CopesWithLongRuns) {
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::llama3}) {
    for (const std::string_view unit : {" ", "a", "!", "\n", "1", "\t ", "é", "\xff", "'", " a", "\u2003"}) {
      std::string text;
      while (text.size() < (std::size_t{1} << 20)) text += unit;
      std::size_t size = 0;
      WordSplitter(pattern).split(text, [&](std::string_view word) { size += word.size(); });
      EXPECT_EQ(size, text.size());
      size = 0;
      text += 'x';
      WordSplitter(pattern).split(text, [&](std::string_view word) { size += word.size(); });
      EXPECT_EQ(size, text.size());
    }
  }
}

TEST(WordSplitter, RefusesWhatIsNoText) {
  std::string blanks(12'000'000, ' ');
  blanks += 'x';
  EXPECT_THAT(error_of([&] { (void)llama3(blanks); }), HasSubstr("cannot be split into words"));
}

TEST(WordSplitter, KnowsItsPatternsByTheirSpelling) {
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::llama3}) {
    ASSERT_NE(find_split_pattern(regex_of(pattern)), nullptr);
    EXPECT_EQ(*find_split_pattern(regex_of(pattern)), pattern);
  }
  EXPECT_EQ(find_split_pattern("\\s+"), nullptr);
  EXPECT_EQ(find_split_pattern(""), nullptr);
}

}  // namespace
}  // namespace lowgear::tokenizer
