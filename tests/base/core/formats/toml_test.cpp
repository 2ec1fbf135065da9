#include "base/core/formats/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TomlTable parse(const std::string& text) { return TomlTable::parse(text, "a.toml"); }

TEST(Toml, ReadsEveryKindOfValue) {
  TomlTable root = parse("number = 1.5\nwhole = 7\ntext = 't'\nmode = \"0640\"\nflag = true\nlist = ['a', 'b']\n");
  EXPECT_EQ(root.number_in("number", 0, 2), 1.5);
  EXPECT_EQ(root.number_in("whole", 0, 9), 7);
  EXPECT_EQ(root.integer_in("whole", 0, 9), 7);
  EXPECT_EQ(root.text("text"), "t");
  EXPECT_EQ(root.file_mode("mode"), 0640U);
  EXPECT_EQ(root.boolean("flag"), true);
  EXPECT_THAT(root.texts("list"), ElementsAre("a", "b"));
  EXPECT_THAT(root.texts("text"), ElementsAre("t"));
  EXPECT_NO_THROW(root.finish());
}

TEST(Toml, HasNothingWhereNothingIsGiven) {
  TomlTable root = parse("");
  EXPECT_EQ(root.number_in("a", 0, 1), std::nullopt);
  EXPECT_EQ(root.file_mode("a"), std::nullopt);
  EXPECT_TRUE(root.texts("a").empty());
  EXPECT_TRUE(root.tables("a").empty());
  EXPECT_EQ(root.table("a").text("b"), std::nullopt);
}

TEST(Toml, ReadsTablesThatOutliveTheDocument) {
  std::vector<TomlTable> rows;
  {
    TomlTable root = parse("[inner]\nx = 3\n[[row]]\nx = 1\n[[row]]\nx = 2\n");
    EXPECT_EQ(root.table("inner").integer_in("x", 0, 9), 3);
    rows = root.tables("row");
  }
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].integer_in("x", 0, 9), 2);
}

TEST(Toml, SaysWhereAMistakeIs) {
  const auto mistake = [](const std::string& text, auto read) {
    return error_of([&] {
      TomlTable root = parse(text);
      read(root);
    });
  };
  const auto number = [](TomlTable& root) { (void)root.number_in("a", 0, 10); };
  const auto whole = [](TomlTable& root) { (void)root.integer_in("a", 0, 10); };
  const auto nothing = [](TomlTable&) {};
  EXPECT_THAT(mistake("\na = 'x'", number), HasSubstr("a.toml:2:5: \"a\" has to be a number from 0 to 10"));
  EXPECT_THAT(mistake("a = nan", number), HasSubstr("a.toml:1:5"));
  EXPECT_THAT(mistake("a = 9223372036854775807", number), HasSubstr("from 0 to 10"));
  EXPECT_THAT(mistake("a = 1.5", whole), HasSubstr("whole number"));
  EXPECT_THAT(mistake("a = 1979-05-27", whole), HasSubstr("has to be a number"));
  EXPECT_THAT(mistake("a = 2", [](TomlTable& root) { (void)root.text("a"); }), HasSubstr("text in quotes"));
  EXPECT_THAT(mistake("a = 2", [](TomlTable& root) { (void)root.boolean("a"); }), HasSubstr("true or false"));
  EXPECT_THAT(mistake("a = [2]", [](TomlTable& root) { (void)root.texts("a"); }), HasSubstr("a.toml:1:6"));
  EXPECT_THAT(mistake("a = 2", [](TomlTable& root) { (void)root.table("a"); }), HasSubstr("[a]"));
  EXPECT_THAT(mistake("[a]", [](TomlTable& root) { (void)root.tables("a"); }), HasSubstr("write [[a]]"));
  for (const char* mode : {"'rw'", "'66'", "'0999'", "'00000'"}) {
    EXPECT_THAT(mistake(std::string("a = ") + mode, [](TomlTable& root) { (void)root.file_mode("a"); }),
                HasSubstr("written like"));
  }
  EXPECT_THAT(mistake("a = [", nothing), HasSubstr("a.toml:1:"));
  EXPECT_THAT(mistake("[@x]", nothing), HasSubstr("a.toml:1:"));
  EXPECT_THAT(mistake("\n# \xC3\xA4", nothing), HasSubstr("a.toml:2:3: a character beyond ASCII"));
}

TEST(Toml, RefusesKeysThatNobodyAskedFor) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] {
      TomlTable root = parse(text);
      TomlTable inner = root.table("sockets");
      (void)inner.text("lease_socket");
      inner.finish();
      root.finish();
    });
  };
  EXPECT_THAT(refusal("[socketz]"), HasSubstr("there is no \"socketz\"; did you mean \"sockets\"?"));
  EXPECT_THAT(refusal("[sockets]\nlease_sokcet = 'l'"), HasSubstr("did you mean \"lease_socket\"?"));
  EXPECT_THAT(refusal("[sockets]\nsomething = 'l'"),
              HasSubstr("there is no \"sockets.something\"; there are lease_socket"));
}

TEST(Toml, TellsAFailedLookUpAtItsValue) {
  TomlTable root = parse("\nuser = 'bob'");
  const std::string message = error_of([&] { root.look_up("user", []() -> int { throw Error("there is no bob"); }); });
  EXPECT_EQ(message, "a.toml:2:8: there is no bob");
}

TEST(Toml, RefusesTablesThatAreNestedTooDeeply) {
  std::string key = "a";
  for (int depth = 0; depth < 100'000; ++depth) key += ".a";
  EXPECT_THAT(error_of([&] { (void)parse(key + " = 1"); }), HasSubstr("nested"));
  EXPECT_THAT(error_of([&] { (void)parse("[" + key + "]"); }), HasSubstr("nested"));
}

}  // namespace
}  // namespace lowgear
