#include "rivals/published_estimator/tuned_regressors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::published_estimator {

namespace {

struct TreeSamples {
  estimator::FeatureTable features{2};
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

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kOperators =
    "GPU,Function,Precision,Propagation,Best_model,Best_config,Best_error%\n"
    "X,linear1,fp16,fwd,rforest,\"{'max_depth': None, 'max_features': None, 'min_samples_leaf': 4, "
    "'min_samples_split': 2, 'n_estimators': 300}\",0.05\n"
    "X,linear1,fp16,bwd,xgboost,\"{'colsample_bytree': 0.8, 'gamma': 0.1, 'learning_rate': 0.2, 'max_depth': 3, "
    "'min_child_weight': 10, 'n_estimators': 100, 'subsample': 0.8}\",0.05\n";

TEST(TunedRegressors, AreReadWithTheirParameters) {
  const TunedRegressors regressors(kOperators, "X.csv");
  const auto& forest = std::get<ForestParameters>(regressors.find("linear1", estimator::DataType::fp16, "fwd"));
  EXPECT_EQ(forest.n_estimators, 300);
  EXPECT_EQ(forest.max_depth, std::nullopt);
  EXPECT_EQ(forest.min_samples_leaf, 4);
  const auto& boosting =
      std::get<estimator::BoostingParameters>(regressors.find("linear1", estimator::DataType::fp16, "bwd"));
  EXPECT_EQ(boosting.max_depth, 3);
  EXPECT_DOUBLE_EQ(boosting.gamma, 0.1);
  EXPECT_DOUBLE_EQ(boosting.subsample, 0.8);
  EXPECT_DOUBLE_EQ(boosting.min_child_weight, 10);
}

TEST(TunedRegressors, OfCollectivesGoByTheirGroup) {
  const std::string csv =
      "GPU,Function,Precision,Nodes,GPUsPerNode,Best_model,Best_config,Best_error%\n"
      "X,p2p,fp16,2,1,rforest,\"{'max_depth': 20, 'max_features': None, 'min_samples_leaf': 1, 'min_samples_split': 2, "
      "'n_estimators': 100}\",0.01\n";
  const TunedRegressors regressors(csv, "X.csv");
  EXPECT_EQ(std::get<ForestParameters>(regressors.find("p2p", estimator::DataType::fp16, 2, 1)).max_depth, 20);
  EXPECT_THAT(error_of([&] { (void)regressors.find("p2p", estimator::DataType::fp16, 0, 0); }),
              StartsWith("X.csv: has no regressor for p2p/fp16/0x0"));
}

TEST(TunedRegressors, ThatNobodyKnowsAreRefused) {
  const auto error_with = [](const std::string& model, const std::string& config) {
    return error_of([&] {
      TunedRegressors(
          "GPU,Function,Precision,Propagation,Best_model,Best_config\nX,f,fp16,fwd," + model + ",\"" + config + "\"\n",
          "X.csv");
    });
  };
  const std::string forest =
      "{'max_depth': 2, 'max_features': None, 'min_samples_leaf': 1, 'min_samples_split': 2, 'n_estimators': 9}";
  EXPECT_EQ(error_with("rforest", forest), "no error");
  EXPECT_THAT(error_with("svm", forest), AllOf(StartsWith("X.csv:2:"), HasSubstr("\"svm\" is not a regressor")));
  EXPECT_THAT(error_with("rforest", "{'max_depth': 2}"), AllOf(StartsWith("X.csv:2:"), HasSubstr("n_estimators")));
  EXPECT_THAT(error_with("rforest", "{'max_depth': 2, 'oob': 1}"), HasSubstr("oob"));
  EXPECT_THAT(error_with("xgboost", "{'n_estimators': 1e9}"), HasSubstr("X.csv:2:"));
  EXPECT_THAT(error_of([] { TunedRegressors("Function,Precision\n", "X.csv"); }), HasSubstr("no column \"Nodes\""));
}

}  // namespace

}  // namespace lowgear::published_estimator
