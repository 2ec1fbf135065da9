#include "estimating/estimator/costs/gradient_boosted_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::estimator {

namespace {

struct Samples {
  FeatureTable features{2};
  std::vector<float> targets;
};

/// Where the two features are both large, 5; elsewhere 1.
Samples corner() {
  Samples samples;
  for (int a = 0; a < 20; ++a) {
    for (int b = 0; b < 20; ++b) {
      const float row[] = {static_cast<float>(a), static_cast<float>(b)};
      samples.features.add(row);
      samples.targets.push_back(a >= 10 && b >= 10 ? 5 : 1);
    }
  }
  return samples;
}

TEST(GradientBoostedTrees, LearnACorner) {
  const Samples samples = corner();
  const GradientBoostedTrees trees(samples.features, samples.targets, {.n_estimators = 60, .max_depth = 2});
  const float high[] = {15, 12};
  const float low[] = {15, 4};
  EXPECT_NEAR(trees.predict(high), 5, 0.05);
  EXPECT_NEAR(trees.predict(low), 1, 0.05);
}

TEST(GradientBoostedTrees, PredictManyRowsAsOneByOne) {
  const Samples samples = corner();
  const GradientBoostedTrees trees(samples.features, samples.targets, {.n_estimators = 5, .max_depth = 3});
  const std::vector<float> all = trees.predict(samples.features);
  ASSERT_EQ(all.size(), samples.targets.size());
  for (std::size_t row = 0; row < all.size(); row += 37) {
    EXPECT_EQ(all[row], static_cast<float>(trees.predict(samples.features.row(row))));
  }
}

TEST(GradientBoostedTrees, BeginAtTheirBase) {
  const Samples samples = corner();
  const GradientBoostedTrees trees(samples.features, samples.targets,
                                   {.n_estimators = 1, .max_depth = 1, .learning_rate = 1e-6, .base_score = 3.5});
  EXPECT_NEAR(trees.predict(samples.features.row(0)), 3.5, 1e-4);
}

TEST(GradientBoostedTrees, AreTheSameEachTime) {
  const Samples samples = corner();
  const BoostingParameters parameters{.n_estimators = 20, .max_depth = 3, .subsample = 0.5, .colsample_bytree = 0.5};
  const GradientBoostedTrees once(samples.features, samples.targets, parameters);
  const GradientBoostedTrees again(samples.features, samples.targets, parameters);
  EXPECT_EQ(once.predict(samples.features), again.predict(samples.features));
}

TEST(GradientBoostedTrees, RefuseRowsWithoutTargets) {
  Samples samples = corner();
  samples.targets.pop_back();
  EXPECT_THROW(GradientBoostedTrees(samples.features, samples.targets, {}), std::invalid_argument);
  EXPECT_THROW(GradientBoostedTrees(FeatureTable(2), {}, {}), std::invalid_argument);
  EXPECT_THROW(GradientBoostedTrees(corner().features, corner().targets, {.n_estimators = 0}), std::invalid_argument);
  const float narrow[] = {1};
  EXPECT_THROW(samples.features.add(narrow), std::invalid_argument);
}

TEST(GradientBoostedTrees, SayWhatXGBoostDoesNotTake) {
  const Samples samples = corner();
  EXPECT_THAT(
      error_of<Error>([&] { GradientBoostedTrees(samples.features, samples.targets, {.tree_method = "none such"}); }),
      ::testing::AllOf(::testing::StartsWith("XGBoost: "), ::testing::HasSubstr("none such"),
                       ::testing::Not(::testing::HasSubstr("Stack trace"))));
}

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const char* file) {
  return error_of<Error>([&] { (void)load_xgboost(file); });
}

TEST(XgboostLibrary, IsLoadedOnce) { EXPECT_EQ(&xgboost(), &xgboost()); }

TEST(XgboostLibrary, ThatIsMissingSaysWhatToInstall) {
  EXPECT_THAT(refusal("libxgboost-of-nobody.so"),
              AllOf(HasSubstr("libxgboost-of-nobody.so"), HasSubstr("install libxgboost0"), Not(HasSubstr("\n"))));
}

TEST(XgboostLibrary, ThatLacksAFunctionNamesIt) {
  EXPECT_THAT(refusal("libm.so.6"), AllOf(HasSubstr("XGBGetLastError"), HasSubstr("install libxgboost0")));
}

}  // namespace

}  // namespace lowgear::estimator
