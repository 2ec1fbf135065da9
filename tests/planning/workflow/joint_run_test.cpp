#include "planning/workflow/joint_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/core/error_of.h"

namespace lowgear::workflow {
namespace {

using ::testing::HasSubstr;
using Curve = std::vector<simulator::PipelineFigures>;

TEST(JointFrontier, OfOneOrderIsItsFrontier) {
  const std::vector<Curve> curves{{{1, 10}, {2, 6}, {3, 5}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  ASSERT_EQ(points.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(points[i].time_s, curves[0][i].time_s);
    EXPECT_EQ(points[i].energy_j, curves[0][i].energy_j);
    EXPECT_EQ(points[i].order, 0);
  }
}

TEST(JointFrontier, ChangesTheOrderWhereTheyCrossAndNeverRises) {
  // The second starts later and lower; they cross at 2.5 s and 5.5 J.
  const std::vector<Curve> curves{{{1, 10}, {2, 6}, {4, 4}}, {{2.25, 6}, {2.75, 5}, {4, 3.5}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  EXPECT_EQ(points.front().order, 0);
  EXPECT_EQ(points.back().order, 1);
  EXPECT_EQ(points.back().energy_j, 3.5);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &JointPoint::time_s));

  const auto first = std::ranges::find(points, 1, &JointPoint::order);
  EXPECT_NEAR(first->time_s, 2.5, 1e-9);
  EXPECT_NEAR(first->energy_j, 5.5, 1e-9);
  EXPECT_NEAR(std::prev(first)->time_s, 2.5, 1e-9);
}

TEST(JointFrontier, AnOrderThatIsBetterNowhereHasNoPoint) {
  const std::vector<Curve> curves{{{1, 10}, {3, 5}}, {{1.5, 12}, {3, 6}}};
  for (const JointPoint& point : joint_frontier(curves)) EXPECT_EQ(point.order, 0);
}

TEST(JointFrontier, AnOrderThatStartsBelowIsAJump) {
  const std::vector<Curve> curves{{{1, 10}, {3, 9}}, {{2, 5}, {3, 4}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  const auto first = std::ranges::find(points, 1, &JointPoint::order);
  ASSERT_NE(first, points.end());
  EXPECT_NEAR(first->time_s, 2, 1e-9);
  EXPECT_NEAR(first->energy_j, 5, 1e-6);
  EXPECT_NEAR(std::prev(first)->time_s, 2, 1e-9);
  EXPECT_NEAR(std::prev(first)->energy_j, 9.5, 1e-6);
}

TEST(JointFrontier, IsReadAsItIsWritten) {
  const std::vector<JointPoint> points{{1.25, 10, 0}, {2, 6.5, 1}};
  const std::vector<JointPoint> read = read_joint_frontier(write_joint_frontier(points), "frontier.csv");
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[1].time_s, 2);
  EXPECT_EQ(read[1].energy_j, 6.5);
  EXPECT_EQ(read[1].order, 1);
  EXPECT_THAT(error_of([] { (void)read_joint_frontier("time_s,energy_j,order\n1,2,-1\n", "f.csv"); }),
              HasSubstr("no order -1"));
  EXPECT_THAT(error_of([] { (void)read_joint_frontier("time_s,energy_j,order\n", "f.csv"); }), HasSubstr("no rows"));
}

}  // namespace
}  // namespace lowgear::workflow
