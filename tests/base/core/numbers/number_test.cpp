#include "base/core/numbers/number.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <limits>
#include <locale>
#include <optional>
#include <random>

namespace lowgear {
namespace {

TEST(ParseNumber, ReadsDecimalNumbers) {
  EXPECT_EQ(parse_number("83.64"), 83.64);
  EXPECT_EQ(parse_number("-1e-3"), -0.001);
  EXPECT_EQ(parse_number("1410"), 1410.0);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("1E6"), 1e6);
}

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  for (const char* text : {"", " ", " 1", "1 ", "1,5", "1.5s", "0x10", "+1", "--1", "1e", "e5", ".", "1.2.3", "one"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

TEST(ParseNumber, RefusesWhatIsNotFinite) {
  for (const char* text : {"nan", "NaN", "-nan", "inf", "INF", "-inf", "infinity", "1e999", "-1e999"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
}

class CommaPunctuation : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

TEST(ParseNumber, DoesNotDependOnTheLocale) {
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new CommaPunctuation));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  const std::optional<double> point = parse_number("0.5");
  const std::optional<double> comma = parse_number("0,5");
  std::setlocale(LC_ALL, "C");
  std::locale::global(before);
  EXPECT_EQ(point, 0.5);
  EXPECT_EQ(comma, std::nullopt);
}

TEST(ParseNumber, ReadsBackEveryNumberThatIsWrittenShortest) {
  std::mt19937_64 random(20240701);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(static_cast<std::uint64_t>(random()));
    if (!std::isfinite(value) || std::fpclassify(value) == FP_SUBNORMAL) continue;
    ASSERT_EQ(parse_number(fmt::format("{}", value)), value);
  }
}

TEST(ParseInteger, ReadsWholeNumbersAlsoWrittenAsDecimals) {
  EXPECT_EQ(parse_integer("1410"), 1410);
  EXPECT_EQ(parse_integer("-7"), -7);
  EXPECT_EQ(parse_integer("4.0"), 4);
  EXPECT_EQ(parse_integer("4e3"), 4000);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<long long>::max());
}

TEST(ParseInteger, RefusesFractionsAndWhatDoesNotFit) {
  for (const char* text : {"4.5", "", "1e300", "9223372036854775808", "nan", "1410MHz", "1 410"}) {
    EXPECT_FALSE(parse_integer(text)) << text;
  }
}

TEST(WholeNumber, EndsWhereADoubleNoLongerTellsNeighboursApart) {
  EXPECT_EQ(whole_number(9007199254740992.0), 9007199254740992LL);
  EXPECT_FALSE(whole_number(9007199254740994.0));
  EXPECT_FALSE(whole_number(-1e300));
  EXPECT_FALSE(whole_number(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(whole_number(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(whole_number(0.5));
  EXPECT_EQ(whole_number(-0.0), 0);
}

TEST(Number, IsRoundedUpToSixDigits) {
  EXPECT_EQ(rounded_up(0.306926406927), "0.306927");
  EXPECT_EQ(rounded_up(15.67942926226), "15.6795");
  EXPECT_EQ(rounded_up(2.5), "2.5");
  EXPECT_EQ(rounded_up(99.99991), "100");
  EXPECT_EQ(rounded_up(1234567), "1.23457e+06");
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-9, 9);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::pow(10, exponent(random));
    const double rounded = parse_number(rounded_up(value)).value();
    ASSERT_GE(rounded, value);
    ASSERT_LE(rounded, value * (1 + 1.1e-5));
  }
}

}  // namespace
}  // namespace lowgear
