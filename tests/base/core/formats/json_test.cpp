#include "base/core/formats/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string json_error_of(std::string_view text) {
  return error_of([text] { (void)parse_json(text, "p.json"); });
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// A view of a temporary would refer to nothing.
static_assert(!std::is_constructible_v<JsonView, Json, std::string>);
static_assert(std::is_constructible_v<JsonView, const Json&, std::string>);

TEST(ParseJson, ReadsEveryKindOfValueInOrder) {
  const Json document =
      parse_json(R"({"z": [1, -2, 2.5, 1e3], "a": {"t": true, "f": false, "n": null}, "s": "\u00e4\n\""})", "p.json");
  EXPECT_EQ(document.dump(), R"({"z":[1,-2,2.5,1000.0],"a":{"t":true,"f":false,"n":null},"s":"ä\n\""})");
}

TEST(ParseJson, ReadsBareValuesAndAByteOrderMark) {
  EXPECT_EQ(parse_json("3", "p.json"), Json(3));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[]", "p.json"), Json::array());
  EXPECT_EQ(parse_json(" {} \n", "p.json"), Json::object());
}

/// A random document of at most `depth` levels.
Json random_document(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<std::uint64_t>(random());
    case 4:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    case 5:
      return fmt::format("\"\\é{}\n", random() % 1000);
    case 6: {
      Json array = Json::array();
      for (std::uint64_t i = random() % 5; i > 0; --i) array.push_back(random_document(random, depth - 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (std::uint64_t i = random() % 5; i > 0; --i) {
        object[fmt::format("k\"{}\\", i)] = random_document(random, depth - 1);
      }
      return object;
    }
  }
}

TEST(ParseJson, ReadsBackWhateverIsWritten) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const Json document = random_document(random, 5);
    ASSERT_EQ(parse_json(document.dump(), "p.json"), document);
    ASSERT_EQ(parse_json(document.dump(2), "p.json"), document);
  }
}

TEST(ParseJson, TellsLineAndColumnOfASyntaxError) {
  EXPECT_THAT(json_error_of("{\n  \"a\": 1,\n  \"b\" 2\n}"), StartsWith("p.json:3:7: not valid JSON: "));
  EXPECT_THAT(json_error_of("[1, 2"), AllOf(StartsWith("p.json:1:6: not valid JSON: "), HasSubstr("end of input")));
  EXPECT_THAT(json_error_of(""), StartsWith("p.json:1:1: not valid JSON: "));
  EXPECT_THAT(json_error_of("{} x"), StartsWith("p.json:1:4: not valid JSON: "));
  EXPECT_THAT(json_error_of("[01]"), StartsWith("p.json:1:3: not valid JSON: "));
  EXPECT_THAT(json_error_of("[nan]"), StartsWith("p.json:1:3: not valid JSON: "));
}

TEST(ParseJson, KeepsItsMessageToOneShortLine) {
  const std::string message = json_error_of("[\"" + std::string(100000, 'x') + "\n\xff");
  EXPECT_LT(message.size(), 400);
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  EXPECT_THAT(message, Not(HasSubstr("\xff")));
  EXPECT_THAT(json_error_of("[\"\xff\"]"), AllOf(HasSubstr("UTF-8"), Not(HasSubstr("\xff"))));
}

TEST(ParseJson, RefusesNumbersBeyondADouble) {
  EXPECT_THAT(json_error_of("{\"a\":\n1e999}"), AllOf(StartsWith("p.json:2:"), HasSubstr("1e999")));
}

TEST(ParseJson, RefusesAKeyThatStandsTwiceWhereItDoes) {
  EXPECT_EQ(json_error_of("{\"a\": 1,\n \"b\": {\"a\": 2}, \"a\": 3}"),
            "p.json:2:17: the key \"a\" occurs twice in its object; keep one of them");
  EXPECT_THAT(json_error_of(R"({"x\"\\": 1, "x\"\\": 2})"), StartsWith("p.json:1:14: the key \"x\"\\\" occurs twice"));
}

TEST(ParseJson, RefusesNestingBeyondItsBound) {
  EXPECT_NO_THROW((void)parse_json(nested(kMaxJsonDepth), "p.json"));
  EXPECT_EQ(json_error_of(nested(kMaxJsonDepth + 1)), "p.json:1:65: nested deeper than 64 levels");
  EXPECT_EQ(json_error_of(std::string(1000000, '[')), "p.json:1:65: nested deeper than 64 levels");
}

TEST(ParseJson, RefusesMoreValuesThanMemoryShouldHold) {
  EXPECT_NO_THROW((void)parse_json("[1, {\"a\": 2}]", "p.json", 4));
  EXPECT_THAT(error_of([] { (void)parse_json("[1, {\"a\": 2,\n\"b\": 3}]", "p.json", 4); }),
              StartsWith("p.json:2:7: more than 4 values"));
}

TEST(ParseJson, ReadsAnObjectOfVeryManyMembersQuickly) {
  std::string text = "{";
  for (int i = 0; i < 50000; ++i) fmt::format_to(std::back_inserter(text), "\"key{}\":{},", i, i);
  text.back() = '}';
  EXPECT_EQ(parse_json(text, "p.json").size(), 50000);
}

class JsonViewTest : public testing::Test {
 protected:
  Json document_ = parse_json(
      R"({"format": "lowgear.plan/1", "n": 2.5, "i": 7, "f": 4.0, "big": 18446744073709551615, "neg": -3, "t": "x",
          "b": true, "null": null, "a": [10, {"odd key": 1, "m": "fast"}], "huge": 1e300})",
      "p.json");
  JsonView view_{document_, "p.json"};
};

TEST_F(JsonViewTest, ReadsValuesOfTheRightKind) {
  EXPECT_EQ(view_.at("n").number(), 2.5);
  EXPECT_EQ(view_.at("i").number(), 7.0);
  EXPECT_EQ(view_.at("i").integer(), 7);
  EXPECT_EQ(view_.at("neg").integer(), -3);
  EXPECT_EQ(view_.at("f").integer(), 4) << "a whole number written as a decimal";
  EXPECT_EQ(view_.at("i").integer_in(7, 7), 7);
  EXPECT_EQ(view_.at("t").text(), "x");
  EXPECT_TRUE(view_.at("b").boolean());
  EXPECT_EQ(view_.at("a").size(), 2);
  EXPECT_EQ(view_.at("a").at(0).integer(), 10);
}

TEST_F(JsonViewTest, KnowsWhatItHas) {
  EXPECT_TRUE(view_.has("null"));
  EXPECT_FALSE(view_.has("none"));
  EXPECT_FALSE(view_.at("a").has("n")) << "an array has no members";
}

TEST_F(JsonViewTest, TellsThePathOfWhatIsWrong) {
  EXPECT_EQ(error_of([&] { (void)view_.at("a").at(1).at("m").integer(); }),
            "p.json: $.a[1].m: expected a whole number, not \"fast\"");
  EXPECT_EQ(error_of([&] { (void)view_.at("a").at(1).at("odd key").text(); }),
            "p.json: $.a[1][\"odd key\"]: expected text, not 1");
  EXPECT_EQ(error_of([&] { (void)view_.at("a").at(1).at("mhz"); }), "p.json: $.a[1]: the member \"mhz\" is missing");
  EXPECT_EQ(error_of([&] { view_.at("n").fail("is slow", "hurry"); }), "p.json: $.n: is slow; hurry");
}

TEST_F(JsonViewTest, RefusesValuesOfTheWrongKind) {
  EXPECT_EQ(error_of([&] { (void)view_.at("n").integer(); }), "p.json: $.n: expected a whole number, not 2.5");
  EXPECT_EQ(error_of([&] { (void)view_.at("big").integer(); }),
            "p.json: $.big: expected a whole number, not 18446744073709551615");
  EXPECT_EQ(error_of([&] { (void)view_.at("huge").integer(); }), "p.json: $.huge: expected a whole number, not 1e+300");
  EXPECT_EQ(error_of([&] { (void)view_.at("t").number(); }), "p.json: $.t: expected a number, not \"x\"");
  EXPECT_EQ(error_of([&] { (void)view_.at("null").number(); }), "p.json: $.null: expected a number, not null");
  EXPECT_EQ(error_of([&] { (void)view_.at("i").boolean(); }), "p.json: $.i: expected true or false, not 7");
  EXPECT_EQ(error_of([&] { (void)view_.at("a").text(); }), "p.json: $.a: expected text, not an array");
  EXPECT_EQ(error_of([&] { (void)view_.size(); }), "p.json: $: expected an array, not an object");
  EXPECT_EQ(error_of([&] { (void)view_.at("i").at("x"); }), "p.json: $.i: expected an object, not 7");
}

TEST_F(JsonViewTest, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(error_of([&] { (void)view_.at("i").integer_in(0, 6); }),
            "p.json: $.i: expected a whole number from 0 to 6, not 7");
  EXPECT_EQ(error_of([&] { (void)view_.at("neg").integer_in(0, std::numeric_limits<int>::max()); }),
            "p.json: $.neg: expected a whole number from 0 to 2147483647, not -3");
  EXPECT_EQ(error_of([&] { (void)view_.at("a").at(2); }), "p.json: $.a: has 2 elements, no element 2");
}

TEST_F(JsonViewTest, ChecksTheFormat) {
  EXPECT_NO_THROW(require_format(view_, "lowgear.plan/1"));
  EXPECT_THAT(error_of([&] { require_format(view_, "lowgear.plan/2"); }),
              StartsWith("p.json: $.format: the format is \"lowgear.plan/1\" where \"lowgear.plan/2\" is expected"));
  const Json other = Json::parse("{}");
  EXPECT_EQ(error_of([&] { require_format(JsonView(other, "q.json"), "lowgear.plan/1"); }),
            "q.json: $: the member \"format\" is missing");
}

std::vector<long long> numbers(std::string_view text) {
  std::vector<long long> read;
  for_each_json_line(text, "log", [&](const JsonView& line) { read.push_back(line.at("n").integer()); });
  return read;
}

TEST(JsonLines, AreReadInOrderWithAndWithoutAnEndOfTheLast) {
  EXPECT_THAT(numbers(""), testing::IsEmpty());
  EXPECT_THAT(numbers("{\"n\":1}\n{\"n\":2}\n"), testing::ElementsAre(1, 2));
  EXPECT_THAT(numbers("{\"n\":1}\n{\"n\":2}"), testing::ElementsAre(1, 2));
  EXPECT_THAT(numbers("\n{\"n\":1}\r\n\r\n{\"n\":2}\n\n"), testing::ElementsAre(1, 2));
}

TEST(JsonLines, NameTheLineThatIsWrong) {
  EXPECT_THAT(error_of([] { (void)numbers("{\"n\":1}\nno\n"); }), testing::StartsWith("log:2"));
  EXPECT_THAT(error_of([] { (void)numbers("\n \t\r\n{\"m\":1}\n"); }), testing::StartsWith("log:3: $"));
  EXPECT_THAT(error_of([] { (void)numbers("{\"n\":1}\n{\"m\":1}\n"); }), testing::StartsWith("log:2: $"));
}

TEST(NumberOrNull, IsReadBack) {
  for (const double value : {0.1, -3e300}) {
    const Json json = number_or_null(value);
    EXPECT_EQ(number_or_nan(JsonView(json, "x")), value);
  }
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Json json = number_or_null(value);
    EXPECT_TRUE(json.is_null());
    EXPECT_TRUE(std::isnan(number_or_nan(JsonView(json, "x"))));
  }
  const Json text = "1";
  EXPECT_THAT(error_of([&] { (void)number_or_nan(JsonView(text, "x")); }), testing::StartsWith("x: $"));
}

}  // namespace

}  // namespace lowgear
