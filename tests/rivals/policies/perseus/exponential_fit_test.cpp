#include "rivals/policies/perseus/exponential_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::policies {

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

/// The search of Perseus' planner, start by start.
std::optional<ExponentialCurve> best_of_perseus_starts(const std::vector<CurvePoint>& points) {
  std::optional<ExponentialCurve> best;
  for (const double scale_j : {10.0, 100.0, 1000.0}) {
    for (const double offset_j : {10.0, 100.0, 1000.0}) {
      for (const double decay_per_ms : {0.01, 0.02, 0.03, 0.04, 0.05, 0.1}) {
        const auto fit = fit_exponential_from(points, {scale_j, -decay_per_ms, offset_j});
        if (fit && (!best || squared_error(*fit, points) < squared_error(*best, points))) best = fit;
      }
    }
  }
  return best;
}

double random_in(std::mt19937& random, double from, double to) {
  return from + (to - from) * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
}

TEST(ExponentialFit, IsTheBestOfPerseusStartsAlsoWhereTheyDoNotAgree) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const double fastest = std::floor(random_in(random, 30, 150));
    const int count = 4 + static_cast<int>(random() % 40);
    const double noise_j = std::pow(10, random_in(random, -3, 0.5));
    const double drop_j = random_in(random, 1, 60);
    const double rate = -std::exp(random_in(random, std::log(0.005), std::log(0.3)));
    std::vector<CurvePoint> points;
    for (int k = 0; k < count; ++k) {
      points.push_back({fastest + k, 20 + drop_j * std::exp(rate * k) + random_in(random, -noise_j, noise_j)});
    }
    const auto fit = fit_exponential(points, kMillisecond);
    const auto expected = best_of_perseus_starts(points);
    ASSERT_EQ(fit.has_value(), expected.has_value());
    if (!fit) continue;
    for (const CurvePoint& point : points) {
      EXPECT_NEAR(fit->energy_j(point.units), expected->energy_j(point.units), 1e-5);
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

using testing::HasSubstr;

TEST(InitialGuess, ReadsPythonsAndJsonsLiterals) {
  const InitialGuess guess = read_initial_guess(
      "# fitted by hand\n{'Forward': [(100, -0.02, 10), (1e2, -0.03, 20.5,)],\n \"Backward\": ([7, -1, 3],),}\n",
      "guess.py");
  ASSERT_EQ(guess.size(), 3U);
  EXPECT_EQ(guess.at({0, OpKind::forward}).scale_j, 100);
  EXPECT_EQ(guess.at({1, OpKind::forward}).rate_per_unit, -0.03);
  EXPECT_EQ(guess.at({1, OpKind::forward}).offset_j, 20.5);
  EXPECT_EQ(guess.at({0, OpKind::backward}).scale_j, 7);
}

TEST(InitialGuess, RefusesAnythingElseWithItsPlace) {
  for (const char* text : {"", "{}", "[]", "{'Forward'}", "{'Forward': [(1, 2)]}", "{'forward': [(1, 2, 3)]}",
                           "{'Forward': [(1, 2, 3)]", "{'Forward': [(1, nan, 3)]}", "{'Forward': [(1, 2, 3)]} x",
                           "{'Forward': [(1, 2, 3)], 'Forward': [(1, 2, 3)]}", "{'Forward': __import__('os')}"}) {
    EXPECT_THAT(error_of([&] { (void)read_initial_guess(text, "guess.py"); }), HasSubstr("guess.py")) << text;
  }
  EXPECT_THAT(error_of([] { (void)read_initial_guess("{'Forward':\n [(1, 2, x)]}", "guess.py"); }),
              HasSubstr("guess.py:2:10"));
}

}  // namespace

}  // namespace lowgear::policies
