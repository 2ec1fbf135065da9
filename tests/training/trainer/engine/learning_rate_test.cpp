#include "training/trainer/engine/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lowgear::trainer {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

std::vector<double> rates(const launcher::OptimizerConfig& config, std::int64_t steps) {
  std::vector<double> rates;
  for (std::int64_t step = 0; step < steps; ++step) rates.push_back(learning_rate(config, step, steps));
  return rates;
}

auto near(const std::vector<double>& expected) {
  constexpr double kRounding = 1e-15;
  return Pointwise(DoubleNear(kRounding), expected);
}

TEST(LearningRate, FallsTowardsTheLeastAfterTheLastStep) {
  const launcher::OptimizerConfig config{.learning_rate = 4e-3};
  // 4e-3 (1 + cos(pi k/4)) / 2
  EXPECT_THAT(rates(config, 4), near({4e-3, 3.414213562373095e-3, 2e-3, 5.857864376269049e-4}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
  EXPECT_EQ(learning_rate(config, 5, 4), 0);
}

TEST(LearningRate, EndsAboveTheLeast) {
  const launcher::OptimizerConfig config{.learning_rate = 3e-3, .min_learning_rate = 1e-3};
  EXPECT_THAT(rates(config, 2), near({3e-3, 2e-3}));
  EXPECT_EQ(learning_rate(config, 2, 2), 1e-3);
}

TEST(LearningRate, RisesOverTheWarmUpFirst) {
  const launcher::OptimizerConfig config{.learning_rate = 4e-3, .warmup_steps = 2};
  EXPECT_THAT(rates(config, 4), near({2e-3, 4e-3, 4e-3, 2e-3}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
}

TEST(LearningRate, OfAWarmUpToTheEndOnlyRises) {
  launcher::OptimizerConfig config{.learning_rate = 4e-3, .warmup_steps = 4};
  EXPECT_THAT(rates(config, 4), near({1e-3, 2e-3, 3e-3, 4e-3}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
  config.warmup_steps = 3;
  EXPECT_EQ(learning_rate(config, 3, 4), 4e-3) << "the fall begins with the highest";
}

TEST(LearningRate, OfASingleStepIsTheHighest) { EXPECT_EQ(learning_rate({.learning_rate = 4e-3}, 0, 1), 4e-3); }

}  // namespace
}  // namespace lowgear::trainer
