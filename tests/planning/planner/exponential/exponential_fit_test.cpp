#include "planning/planner/exponential/exponential_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace lowgear::planner {
namespace {

constexpr double kMillisecond = 1e-3;

std::vector<CurvePoint> points_of(const ExponentialCurve& curve, int from, int to) {
  std::vector<CurvePoint> points;
  for (int units = from; units <= to; ++units) {
    points.push_back({static_cast<double>(units), curve.energy_j(units)});
  }
  return points;
}

double squared_error(const ExponentialCurve& curve, const std::vector<CurvePoint>& points) {
  double sum = 0;
  for (const CurvePoint& point : points) sum += std::pow(curve.energy_j(point.units) - point.energy_j, 2);
  return sum;
}

TEST(ExponentialFit, FindsTheCurveThatThePointsLieOn) {
  const ExponentialCurve truth{15184, -0.1495, 10.94};
  const auto fit = fit_exponential(points_of(truth, 50, 62), kMillisecond);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->rate_per_unit, truth.rate_per_unit, 1e-6);
  EXPECT_NEAR(fit->offset_j, truth.offset_j, 1e-4);
  for (int units = 45; units <= 70; ++units) EXPECT_NEAR(fit->energy_j(units), truth.energy_j(units), 1e-4);
}

TEST(ExponentialFit, FindsTheSameCurveInOtherUnits) {
  const ExponentialCurve truth{15184, -0.01495, 10.94};
  const auto fit = fit_exponential(points_of(truth, 500, 620), kMillisecond / 10);
  ASSERT_TRUE(fit);
  for (int units = 500; units <= 620; ++units) EXPECT_NEAR(fit->energy_j(units), truth.energy_j(units), 1e-4);
}

TEST(ExponentialFit, NoCurveNearbyIsBetterOnNoisyPoints) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.3);
  for (int round = 0; round < 20; ++round) {
    std::vector<CurvePoint> points = points_of({20000, -0.12, 12}, 55, 75);
    for (CurvePoint& point : points) point.energy_j += noise(random);
    const auto fit = fit_exponential(points, kMillisecond);
    ASSERT_TRUE(fit);
    const double least = squared_error(*fit, points);
    for (const double change : {-1e-3, 1e-3}) {
      EXPECT_LT(least, squared_error({fit->scale_j * (1 + change), fit->rate_per_unit, fit->offset_j}, points));
      EXPECT_LT(least, squared_error({fit->scale_j, fit->rate_per_unit * (1 + change), fit->offset_j}, points));
      EXPECT_LT(least, squared_error({fit->scale_j, fit->rate_per_unit, fit->offset_j * (1 + change)}, points));
    }
  }
}

TEST(ExponentialFit, ThreePointsLeaveTheCovarianceUndefined) {
  EXPECT_FALSE(fit_exponential({}, kMillisecond));
  EXPECT_FALSE(fit_exponential(points_of({15184, -0.1495, 10.94}, 50, 52), kMillisecond));
  EXPECT_TRUE(fit_exponential(points_of({15184, -0.1495, 10.94}, 50, 53), kMillisecond));
}

TEST(ExponentialFit, WhateverItReturnsIsFinite) {
  const std::vector<std::vector<CurvePoint>> hard = {
      {{50, 7}, {51, 7}, {52, 7}, {53, 7}, {54, 7}},                       // constant
      {{50, 1}, {51, 2}, {52, 3}, {53, 4}, {54, 5}},                       // rising
      {{50, 30}, {51, 20}, {52, 25}, {53, 10}, {54, 15}},                  // noise
      {{1e5, 3e4}, {2e5, 2e4}, {3e5, 1.5e4}, {4e5, 1.2e4}, {5e5, 1.1e4}},  // far from the starts
      {{1, 1e-9}, {2, 1e-10}, {3, 1e-11}, {4, 1e-12}},
  };
  for (const auto& points : hard) {
    const auto fit = fit_exponential(points, kMillisecond);
    if (!fit) continue;
    EXPECT_GE(fit->scale_j, 0);
    for (const CurvePoint& point : points) EXPECT_TRUE(std::isfinite(fit->energy_j(point.units)));
  }
}

}  // namespace
}  // namespace lowgear::planner
