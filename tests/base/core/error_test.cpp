#include "base/core/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear {
namespace {

std::string message_of(const SourceLocation& where, std::string_view what, std::string_view fix = {}) {
  try {
    throw_input_error(where, what, fix);
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(SourceLocation, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(to_string({"a.csv", 3, 7}), "a.csv:3:7");
  EXPECT_EQ(to_string({"a.csv", 3, 0}), "a.csv:3");
  EXPECT_EQ(to_string({"a.csv", 0, 0}), "a.csv");
  EXPECT_EQ(to_string({"a.csv", 0, 7}), "a.csv");
}

TEST(InputError, SaysWhereWhatAndHowToFix) {
  EXPECT_EQ(message_of({"a.csv", 3, 7}, "time is empty", "give a number"), "a.csv:3:7: time is empty; give a number");
  EXPECT_EQ(message_of({"a.csv", 3, 7}, "time is empty"), "a.csv:3:7: time is empty");
  EXPECT_EQ(message_of({}, "nothing given"), "nothing given");
}

TEST(InputError, IsOneLineWhateverTheFileIsCalled) {
  EXPECT_EQ(message_of({"two\nlines.csv", 1, 0}, "is empty"), "two\\x0alines.csv:1: is empty");
}

TEST(Printable, KeepsTextOfAllLanguages) { EXPECT_EQ(printable("größe 大小 🙂"), "größe 大小 🙂"); }

TEST(Printable, EscapesControlCharactersAndWhatIsNoUtf8) {
  EXPECT_EQ(printable(std::string_view("a\0b\n\x1b[31m\x7f", 10)), "a\\x00b\\x0a\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85");  // U+0085, a line break to some terminals
  EXPECT_EQ(printable("ok\xff\xc3"), "ok\\xff\\xc3");
  EXPECT_EQ(printable("a\u2028b\u2029"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9");  // separators of lines and paragraphs
  EXPECT_EQ(printable("\u202e\u2066"), "\\xe2\\x80\\xae\\xe2\\x81\\xa6");      // turn the text around
  EXPECT_EQ(printable("\u2027\u202f\u2065"), "\u2027\u202f\u2065");
}

TEST(Printable, CutsAfterSoManyCharactersNotBytes) {
  EXPECT_EQ(printable("äöü", 3), "äöü");
  EXPECT_EQ(printable("äöüß", 3), "äöü...");
  EXPECT_EQ(printable("", 0), "");
}

TEST(Quote, PutsShortTextInQuotes) {
  EXPECT_EQ(quote("foward"), "\"foward\"");
  EXPECT_EQ(quote(std::string(1000000, 'x')), fmt::format("\"{:x<60}...\"", ""));
}

TEST(Locate, CountsLinesAndCharacters) {
  const std::string_view text = "ab\ncd\r\nef\rgh";
  EXPECT_EQ(to_string(locate(text, 0, "f")), "f:1:1");
  EXPECT_EQ(to_string(locate(text, 1, "f")), "f:1:2");
  EXPECT_EQ(to_string(locate(text, 3, "f")), "f:2:1");
  EXPECT_EQ(to_string(locate(text, 7, "f")), "f:3:1");
  EXPECT_EQ(to_string(locate(text, 11, "f")), "f:4:2");
}

TEST(Locate, GivesAByteOrderMarkNoColumn) { EXPECT_EQ(to_string(locate("\xEF\xBB\xBFx!", 4, "f")), "f:1:2"); }

TEST(Locate, CountsACharacterOfSeveralBytesOnce) { EXPECT_EQ(to_string(locate("äöü!", 6, "f")), "f:1:4"); }

TEST(Locate, StopsAtTheEndOfTheText) { EXPECT_EQ(to_string(locate("ab", 100, "f")), "f:1:3"); }

}  // namespace
}  // namespace lowgear
