#include "base/core/numbers/figure_text.h"

#include <gtest/gtest.h>

namespace lowgear {
namespace {

TEST(FigureText, CountsOneWithTheSingular) {
  EXPECT_EQ(counted(1, "vertex", "vertices"), "1 vertex");
  EXPECT_EQ(counted(0, "vertex", "vertices"), "0 vertices");
  EXPECT_EQ(counted(20, "plan", "plans"), "20 plans");
}

TEST(FigureText, ZeroHasNoMinusSign) {
  EXPECT_EQ(fixed_text(-0.0, 2), "0.00");
  EXPECT_EQ(fixed_text(-0.004, 2), "0.00");
  EXPECT_EQ(fixed_text(-0.006, 2), "-0.01");
  EXPECT_EQ(fixed_text(13.814, 2), "13.81");
  EXPECT_EQ(fixed_text(-0.0004, 3), "0.000");
  EXPECT_EQ(signed_text(-1e-12, 2), "+0.00");
  EXPECT_EQ(signed_text(-13.81, 2), "-13.81");
  EXPECT_EQ(signed_text(0.126, 2), "+0.13");
}

TEST(FigureText, LargeNumbersHaveNoExponent) {
  EXPECT_EQ(three_digits(0.29512), "0.295");
  EXPECT_EQ(three_digits(999.4), "999");
  EXPECT_EQ(three_digits(999.6), "1000");
  EXPECT_EQ(three_digits(-6731.2), "-6731");
}

TEST(FigureText, TimesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(duration_text(9), "9 s");
  EXPECT_EQ(duration_text(0.025), "25 ms");
  EXPECT_EQ(duration_text(0.0001), "0.1 ms");
  EXPECT_EQ(duration_text(119), "119 s");
  EXPECT_EQ(duration_text(825), "13.8 min");
  EXPECT_EQ(duration_text(9000), "2.5 h");
}

}  // namespace
}  // namespace lowgear
