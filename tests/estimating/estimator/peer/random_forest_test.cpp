#include "estimating/estimator/peer/random_forest.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace lowgear::estimator {
namespace {

struct TreeSamples {
  FeatureTable features{2};
  std::vector<double> targets;

  void add(float a, float b, double target) {
    const float row[] = {a, b};
    features.add(row);
    targets.push_back(target);
  }
};

/// A step along the first feature; the second one says nothing.
TreeSamples step() {
  TreeSamples samples;
  for (int i = 0; i < 200; ++i) {
    const auto x = static_cast<float>(i);
    samples.add(x, static_cast<float>(i * 37 % 11), i < 120 ? 10 : 30);
  }
  return samples;
}

double predict(const TreeSamples& samples, float a, float b, const ForestParameters& parameters) {
  const float point[] = {a, b};
  return random_forest_prediction(samples.features, samples.targets, point, parameters);
}

TEST(RandomForest, FindsAStep) {
  const TreeSamples samples = step();
  const ForestParameters parameters{.n_estimators = 50};
  EXPECT_DOUBLE_EQ(predict(samples, 40, 3, parameters), 10);
  EXPECT_DOUBLE_EQ(predict(samples, 180, 3, parameters), 30);
}

TEST(RandomForest, ClampsBeyondItsSamples) {
  const TreeSamples samples = step();
  EXPECT_DOUBLE_EQ(predict(samples, 1e6F, 3, {.n_estimators = 20}), 30);
}

TEST(RandomForest, SplitsOnTheFeatureThatMatters) {
  TreeSamples samples;
  for (int i = 0; i < 100; ++i) samples.add(static_cast<float>(i % 10), static_cast<float>(i / 10), i / 10 < 5 ? 1 : 2);
  EXPECT_DOUBLE_EQ(predict(samples, 0, 1, {.n_estimators = 20}), 1);
  EXPECT_DOUBLE_EQ(predict(samples, 0, 8, {.n_estimators = 20}), 2);
}

TEST(RandomForest, WithoutDepthIsTheMeanOfItsDraws) {
  const TreeSamples samples = step();
  EXPECT_NEAR(predict(samples, 40, 3, {.n_estimators = 400, .max_depth = 0}), 18, 0.3);
}

TEST(RandomForest, KeepsLeavesAsLargeAsIsAsked) {
  TreeSamples samples;
  for (int i = 0; i < 9; ++i) samples.add(static_cast<float>(i), 0, i == 0 ? 100 : 0);
  EXPECT_GT(predict(samples, 0, 0, {.n_estimators = 200}), 50);
  EXPECT_LT(predict(samples, 0, 0, {.n_estimators = 200, .min_samples_leaf = 4}), 40);
  EXPECT_LT(predict(samples, 0, 0, {.n_estimators = 200, .min_samples_split = 10}), 25);
}

TEST(RandomForest, DrawsTheSameEachTimeAndOthersByItsState) {
  TreeSamples samples;
  for (int i = 0; i < 60; ++i) samples.add(static_cast<float>(i % 7), static_cast<float>(i % 5), i * i % 17);
  const double once = predict(samples, 3, 2, {.n_estimators = 10});
  EXPECT_EQ(predict(samples, 3, 2, {.n_estimators = 10}), once);
  EXPECT_NE(predict(samples, 3, 2, {.n_estimators = 10, .random_state = 7}), once);
}

TEST(RandomForest, NeedsATargetForEachRow) {
  TreeSamples samples = step();
  samples.targets.pop_back();
  EXPECT_THROW((void)predict(samples, 1, 1, {}), std::invalid_argument);
}

}  // namespace
}  // namespace lowgear::estimator
