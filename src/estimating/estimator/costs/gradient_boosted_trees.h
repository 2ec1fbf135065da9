#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lowgear::estimator {

/// Inputs of a regression, row by row.
class FeatureTable {
 public:
  explicit FeatureTable(std::size_t columns) : columns_(columns) {}

  /// Throws std::invalid_argument unless `row` has a value for each column.
  void add(std::span<const float> row);
  [[nodiscard]] std::size_t rows() const { return values_.size() / columns_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::span<const float> row(std::size_t index) const;
  [[nodiscard]] std::span<const float> values() const { return values_; }

 private:
  std::size_t columns_;
  std::vector<float> values_;
};

/// Parameters of XGBoost under XGBoost's names.
struct BoostingParameters {
  int n_estimators = 100;
  int max_depth = 6;
  double learning_rate = 0.3;
  double min_child_weight = 1;
  double gamma = 0;
  double reg_lambda = 1;
  double subsample = 1;
  double colsample_bytree = 1;
  double base_score = 0.5;  ///< prediction before the first tree
  std::string tree_method = "exact";
  int max_bin = 256;  ///< of tree_method `hist`
  int seed = 42;
};

/// Gradient-boosted regression trees of XGBoost (Chen and Guestrin 2016; squared error), on the calling thread. The
/// same samples and parameters give the same trees.
class GradientBoostedTrees {
 public:
  /// Throws std::invalid_argument unless there is a tree to grow and a target for each row, and Error when XGBoost is
  /// not installed or fails, with its message.
  GradientBoostedTrees(const FeatureTable& features, std::span<const float> targets,
                       const BoostingParameters& parameters);

  [[nodiscard]] double predict(std::span<const float> features) const;
  [[nodiscard]] std::vector<float> predict(const FeatureTable& features) const;

 private:
  std::size_t columns_;
  std::unique_ptr<void, int (*)(void*)> booster_;  ///< freed by XGBoost
};

struct XgboostFunctions;  // the .cpp defines it: XGBoost's own header is needed there alone

/// Loads XGBoost's library when a regression first needs it, so that servers, agents and estimates without samples
/// need no such package and no memory for it. Throws Error that names the missing package. The library stays loaded,
/// because its threads outlive the regression that started them.
[[nodiscard]] std::shared_ptr<const XgboostFunctions> load_xgboost(const char* file);

/// The functions of the system's library, loaded once. Throws as `load_xgboost` does, on every call without it.
[[nodiscard]] const XgboostFunctions& xgboost();

}  // namespace lowgear::estimator
