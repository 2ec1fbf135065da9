#include "base/core/numbers/quantity.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lowgear {
namespace {

TEST(Quantity, ReadsANumberAloneInTheUnitThatIsAsked) {
  EXPECT_EQ(parse_quantity("25", Unit::millisecond), 25);
  EXPECT_EQ(parse_quantity("16.5", Unit::second), 16.5);
  EXPECT_EQ(parse_quantity("1e3", Unit::watt), 1000);
  EXPECT_EQ(parse_quantity("-2", Unit::percent), -2);
}

TEST(Quantity, ConvertsUnitsOfTheSameDimension) {
  EXPECT_EQ(parse_quantity("25ms", Unit::millisecond), 25);
  EXPECT_EQ(parse_quantity("25 ms", Unit::second), 0.025);
  EXPECT_EQ(parse_quantity("0.025s", Unit::millisecond), 25);
  EXPECT_EQ(parse_quantity("2min", Unit::second), 120);
  EXPECT_EQ(parse_quantity("83.6W", Unit::watt), 83.6);
  EXPECT_EQ(parse_quantity("0.5kW", Unit::watt), 500);
  EXPECT_EQ(parse_quantity("1.41GHz", Unit::megahertz), 1410);
  EXPECT_EQ(parse_quantity("80GB", Unit::byte), 80e9);
  EXPECT_EQ(parse_quantity("80GiB", Unit::gibibyte), 80);
  EXPECT_EQ(parse_quantity("80GB", Unit::gpu_gigabyte), 80);
  EXPECT_EQ(parse_quantity("5us", Unit::microsecond), 5);
  EXPECT_EQ(parse_quantity("0.5ms", Unit::microsecond), 500);
  EXPECT_EQ(parse_quantity("2TB/s", Unit::gigabyte_per_second), 2000);
  EXPECT_EQ(parse_quantity("400Gb/s", Unit::gigabyte_per_second), 50);
  EXPECT_EQ(parse_quantity("5%", Unit::percent), 5);
  EXPECT_EQ(parse_quantity("5%", Unit::share), 0.05);
  EXPECT_EQ(parse_quantity("0.05", Unit::share), 0.05);
}

TEST(Quantity, ReadsUnitsInAnyCaseWhereOneIsMeant) {
  EXPECT_EQ(parse_quantity("80gb", Unit::byte), 80e9);
  EXPECT_EQ(parse_quantity("1410mhz", Unit::megahertz), 1410);
  EXPECT_EQ(parse_quantity("300w", Unit::watt), 300);
  EXPECT_EQ(parse_quantity("1MW", Unit::watt), 1e6);
  EXPECT_EQ(parse_quantity("1mW", Unit::watt), 1e-3);
  EXPECT_EQ(parse_quantity("1Mw", Unit::watt), std::nullopt) << "milli or mega";
}

TEST(Quantity, RefusesWhatIsNone) {
  for (const char* text :
       {"", " ", "W", "5 W ", "5  W", "5W5", "5J", "0x10W", "nanW", "infW", "+5W", "5%%", "1e999s"}) {
    EXPECT_EQ(parse_quantity(text, Unit::watt), std::nullopt) << text;
  }
  EXPECT_EQ(parse_quantity("25ms", Unit::watt), std::nullopt);
  EXPECT_EQ(parse_quantity("25 ", Unit::watt), std::nullopt);
}

TEST(Quantity, AsksWhetherASmallNumberIsAShare) {
  EXPECT_TRUE(may_be_share("0.05"));
  for (const char* text : {"0.05%", "0", "0.5", "5", "x", "-0.1"}) EXPECT_FALSE(may_be_share(text)) << text;
  EXPECT_EQ(share_or_percent("0.05"),
            "0.05 without a unit may mean two things: give 0.05% for that many per cent, or 5% for a share");
}

TEST(Quantity, NamesAnExampleWithinBounds) {
  EXPECT_EQ(example_of(Unit::millisecond, 0, 1000), "25ms");
  EXPECT_EQ(example_of(Unit::second, 0.001, 2.5), "2.5s");
  EXPECT_EQ(example_of(Unit::percent, 10, 100), "10%");
}

TEST(Quantity, HintsAtADecimalComma) {
  EXPECT_EQ(comma_hint("2,5%"), "; write 2.5%");
  EXPECT_EQ(comma_hint("1,5"), "; write 1.5");
  for (const char* text : {"", "5%", ",", "1,2,3", "a,b", "1,x"}) EXPECT_EQ(comma_hint(text), "") << text;
}

TEST(Quantity, EveryUnitReadsItsSymbol) {
  for (const Unit unit : {Unit::second, Unit::millisecond, Unit::microsecond, Unit::watt, Unit::megahertz, Unit::byte,
                          Unit::gibibyte, Unit::gpu_gigabyte, Unit::gigabyte_per_second, Unit::percent, Unit::share}) {
    EXPECT_EQ(parse_quantity("7" + std::string(symbol(unit)), unit), 7) << symbol(unit);
  }
}

}  // namespace
}  // namespace lowgear
