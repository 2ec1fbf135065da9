#include "server/budgets/power_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

constexpr double kForever = 1e9;

/// 1000 W at full speed, 700 W at 1.1 s, 600 W at 1.25 s.
const std::vector<CurvePoint> kVertices = {{1.0, 1000}, {1.1, 770}, {1.25, 750}};

TEST(PowerCurve, IsEnergyOverTimeOnTheLinesBetweenVertices) {
  const PowerCurve curve(kVertices, kForever);
  EXPECT_DOUBLE_EQ(curve.most_w(), 1000);
  EXPECT_DOUBLE_EQ(curve.least_w(), 600);
  EXPECT_NEAR(curve.power_w(1.05), 885 / 1.05, 1e-9);
  EXPECT_DOUBLE_EQ(curve.power_w(0.5), 1000);
  EXPECT_DOUBLE_EQ(curve.power_w(9), 600);
}

TEST(PowerCurve, GivesTheShortestTimeWithAPower) {
  const PowerCurve curve(kVertices, kForever);
  for (double time_s = 1; time_s <= 1.25; time_s += 0.01)
    EXPECT_NEAR(curve.time_s(curve.power_w(time_s)), time_s, 1e-12);
  EXPECT_DOUBLE_EQ(curve.time_s(2000), 1);
  EXPECT_DOUBLE_EQ(curve.time_s(100), 1.25);
}

TEST(PowerCurve, EndsAtTheSlowestTimeAllowed) {
  const PowerCurve curve(kVertices, 1.05);
  EXPECT_DOUBLE_EQ(curve.slowest_s(), 1.05);
  EXPECT_NEAR(curve.least_w(), 885 / 1.05, 1e-9);
  EXPECT_DOUBLE_EQ(PowerCurve(kVertices, 0.5).slowest_s(), 1);
}

TEST(PowerCurve, HasNoBetterTimeForAPrice) {
  const PowerCurve curve(kVertices, kForever);
  for (double price = 1e-6; price < 1; price *= 1.7) {
    const auto cost = [&](double time_s) { return 3 * time_s + price * curve.power_w(time_s); };
    const double best_s = curve.best_time_s(3, price);
    for (double time_s = 1; time_s <= 1.25; time_s += 1e-4) EXPECT_LE(cost(best_s), cost(time_s) + 1e-12) << price;
  }
  EXPECT_DOUBLE_EQ(curve.best_time_s(3, 0), 1);
}

TEST(PowerCurve, OfOneVertexStandsStill) {
  const PowerCurve curve(std::vector<CurvePoint>{{2, 500}}, kForever);
  EXPECT_DOUBLE_EQ(curve.best_time_s(1, 5), 2);
  EXPECT_DOUBLE_EQ(curve.power_w(3), 250);
  EXPECT_DOUBLE_EQ(curve.time_s(1), 2);
}

TEST(PowerCurve, RefusesWhatIsNoFrontier) {
  const auto refusal = [](std::vector<CurvePoint> vertices) {
    return error_of([&] { (void)PowerCurve(vertices, kForever); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("without vertices"));
  EXPECT_THAT(refusal({{1, 0}}), HasSubstr("vertex 0 of the frontier: 1 s and 0 J"));
  EXPECT_THAT(refusal({{1, 10}, {1, 9}}), HasSubstr("vertex 1 of the frontier: 1 s does not exceed"));
  EXPECT_THAT(refusal({{1, 10}, {2, 11}}), HasSubstr("energies must fall"));
  EXPECT_THAT(refusal({{1, 10}, {2, 9}, {3, 7}}), HasSubstr("vertex 2 of the frontier: energies must fall"));
}

}  // namespace
}  // namespace lowgear::server
