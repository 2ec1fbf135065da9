#include "base/core/formats/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

std::vector<long long> numbers(std::string_view text) {
  std::vector<long long> read;
  for_each_json_line(text, "log", [&](const JsonView& line) { read.push_back(line.at("n").integer()); });
  return read;
}

TEST(JsonLines, AreReadInOrderWithAndWithoutAnEndOfTheLast) {
  EXPECT_THAT(numbers(""), testing::IsEmpty());
  EXPECT_THAT(numbers("{\"n\":1}\n{\"n\":2}\n"), testing::ElementsAre(1, 2));
  EXPECT_THAT(numbers("{\"n\":1}\n{\"n\":2}"), testing::ElementsAre(1, 2));
}

TEST(JsonLines, NameTheLineThatIsWrong) {
  EXPECT_THAT(error_of([] { (void)numbers("{\"n\":1}\nno\n"); }), testing::StartsWith("log:2"));
  EXPECT_THAT(error_of([] { (void)numbers("{\"n\":1}\n\n"); }), testing::StartsWith("log:2"));
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
