#include "base/core/formats/yaml_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

YamlSection parse(const std::string& text) { return YamlSection::parse(text, "a.yaml"); }

TEST(YamlSection, ReadsEveryKindOfValue) {
  YamlSection root = parse("number: 1.5\nwhole: 7\ntext: t\nmode: '0640'\nflag: true\nlist: [a, b]\n");
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

TEST(YamlSection, RefusesAPathThatEndsWithANewline) {
  YamlSection root = parse("a: /x\nb: |-\n  /x y\nc: |\n  /x\nd: >\n  /x\n");
  EXPECT_EQ(root.path("a"), "/x");
  EXPECT_EQ(root.path("b"), "/x y");
  EXPECT_EQ(root.path("missing"), std::nullopt);
  EXPECT_EQ(error_of([&] { (void)root.path("c"); }),
            "a.yaml:4:4: c: the path ends with a newline; write it without | and >, or with |-");
  EXPECT_THAT(error_of([&] { (void)root.path("d"); }), HasSubstr("a.yaml:6:4: d: the path ends with a newline"));
}

TEST(YamlSection, HasNothingWhereNothingIsGiven) {
  for (const char* text : {"", "# a comment\n", "---\n", "b:\nc:\n"}) {
    YamlSection root = parse(text);
    EXPECT_EQ(root.number_in("a", 0, 1), std::nullopt) << text;
    EXPECT_EQ(root.file_mode("a"), std::nullopt) << text;
    EXPECT_TRUE(root.texts("a").empty()) << text;
    EXPECT_TRUE(root.sections("b").empty()) << text;
    EXPECT_EQ(root.section("c").text("d"), std::nullopt) << text;
    EXPECT_NO_THROW(root.finish()) << text;
  }
}

TEST(YamlSection, OutlivesTheDocument) {
  std::vector<YamlSection> rows;
  {
    YamlSection root = parse("inner:\n  x: 3\nrow:\n  - x: 1\n  - x: 2\n");
    EXPECT_EQ(root.section("inner").integer_in("x", 0, 9), 3);
    rows = root.sections("row");
  }
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].integer_in("x", 0, 9), 2);
}

TEST(YamlSection, SaysWhereAMistakeIs) {
  const auto mistake = [](const std::string& text, auto read) {
    return error_of([&] {
      YamlSection root = parse(text);
      read(root);
    });
  };
  const auto number = [](YamlSection& root) { (void)root.number_in("a", 0, 10); };
  const auto text = [](YamlSection& root) { (void)root.text("a"); };
  EXPECT_EQ(mistake("\na: x", number), "a.yaml:2:4: a: expected a number from 0 to 10, not \"x\"");
  EXPECT_EQ(mistake("a: '5'", number),
            "a.yaml:1:4: a: expected a number from 0 to 10, not the text \"5\"; remove the quotes");
  EXPECT_THAT(mistake("a:", number), HasSubstr("a value is missing"));
  EXPECT_THAT(mistake("a: 1.5", [](YamlSection& root) { (void)root.integer_in("a", 0, 10); }), HasSubstr("whole"));
  for (const char* value : {"2", "-1e3", "true"}) {
    EXPECT_EQ(mistake(std::string("a: ") + value, text), "a.yaml:1:4: a: expected a text in quotes") << value;
    EXPECT_EQ(mistake("a: '" + std::string(value) + "'", text), "no error") << value;
  }
  EXPECT_THAT(mistake("a: 2", [](YamlSection& root) { (void)root.boolean("a"); }), HasSubstr("true or false"));
  EXPECT_THAT(mistake("a: [2]", [](YamlSection& root) { (void)root.texts("a"); }), HasSubstr("a.yaml:1:5: a[0]: "));
  EXPECT_THAT(mistake("a: 2", [](YamlSection& root) { (void)root.section("a"); }), HasSubstr("expected a map, not"));
  EXPECT_THAT(mistake("a: {}", [](YamlSection& root) { (void)root.sections("a"); }), HasSubstr("expected a list"));
  EXPECT_THAT(mistake("a: [b]", [](YamlSection& root) { (void)root.sections("a"); }),
              HasSubstr("a[0]: expected a map"));
  for (const char* mode : {"'rw'", "'66'", "'0999'", "'00000'", "0660"}) {
    EXPECT_THAT(mistake(std::string("a: ") + mode, [](YamlSection& root) { (void)root.file_mode("a"); }),
                HasSubstr("expected a mode in quotes, such as \"0660\""));
  }
}

TEST(YamlSection, RefusesMembersThatNobodyAskedFor) {
  const auto refusal = [](const std::string& text) {
    return error_of([&] {
      YamlSection root = parse(text);
      YamlSection inner = root.section("sockets");
      (void)inner.text("lease_socket");
      inner.finish();
      root.finish();
    });
  };
  EXPECT_EQ(refusal("socketz: {}"), "a.yaml:1:1: \"socketz\" is not a setting; did you mean sockets?");
  EXPECT_THAT(refusal("sockets:\n  lease_sokcet: l"), HasSubstr("did you mean lease_socket?"));
  EXPECT_EQ(refusal("sockets:\n  something: l"),
            "a.yaml:2:3: sockets: \"something\" is not a setting; there are lease_socket");
}

TEST(YamlSection, ReportsAFailedLookUpAtItsValue) {
  YamlSection root = parse("\nuser: bob");
  const std::string message = error_of([&] { root.look_up("user", []() -> int { throw Error("there is no bob"); }); });
  EXPECT_EQ(message, "a.yaml:2:7: user: there is no bob");
}

}  // namespace
}  // namespace lowgear
