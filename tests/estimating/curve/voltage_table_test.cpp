#include "estimating/curve/voltage_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace lowgear::curve {
namespace {

TEST(VoltageTable, SpreadsKnotsFromTheLowestClockToTheHighest) {
  const VoltageTable table(std::vector<double>{1980, 1080, 1500}, 1980, 2);
  ASSERT_EQ(table.knots().size(), 20U);
  EXPECT_EQ(table.knots().front(), 1080);
  EXPECT_NEAR(table.knots().back(), 1935, 1e-9);
  const auto middle = table.weights(1102.5);
  EXPECT_EQ(middle[0].knot, 0);
  EXPECT_EQ(middle[1].knot, 1);
  EXPECT_NEAR(middle[0].weight, 0.5, 1e-9);
  const auto highest = table.weights(1980);
  EXPECT_EQ(highest[1].knot, -1);
  EXPECT_NEAR(highest[1].weight, 1, 1e-9);
}

TEST(VoltageTable, HasNoKnotsAtOneClock) {
  const VoltageTable table(std::vector<double>{1980, 1979}, 1980, 2);
  EXPECT_TRUE(table.knots().empty());
  EXPECT_EQ(table.weights(1979)[0].knot, -1);
  EXPECT_EQ(table.weights(1979)[0].weight, 1);
}

TEST(VoltageTable, PoolsNeighboursOutOfOrder) {
  std::vector<power::VoltagePoint> points = {{1000, 0.5, 0.01}, {1100, 0.6, 0.01}, {1200, 0.5, 0.02}, {1300, 1, 0}};
  make_monotone(points);
  EXPECT_DOUBLE_EQ(points[0].relative_v2, 0.5);
  EXPECT_NEAR(points[1].relative_v2, (0.6 * 4 + 0.5) / 5, 1e-12);
  EXPECT_EQ(points[1].relative_v2, points[2].relative_v2);
  EXPECT_EQ(points[3].relative_v2, 1);
}

TEST(VoltageTable, ExtrapolatesTheVoltageInALine) {
  const std::vector<power::VoltagePoint> points = {{1000, 0.25, 0.01}, {1500, 0.5625, 0.01}, {2000, 1, 0}};
  const std::vector<power::VoltagePoint> all = with_extrapolation(points, 800);
  EXPECT_EQ(all.front().clock_mhz, 800);
  EXPECT_NEAR(all.front().relative_v2, 0.16, 1e-9);
  EXPECT_GT(all.front().error, (0.25 - 0.16) / 2);
  EXPECT_EQ(all.size(), points.size() + 10);
  EXPECT_EQ(with_extrapolation(points, 1200).size(), points.size());
}

}  // namespace
}  // namespace lowgear::curve
