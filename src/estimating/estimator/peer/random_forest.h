#pragma once

#include <optional>
#include <span>

#include "estimating/estimator/costs/gradient_boosted_trees.h"

namespace lowgear::estimator {

/// Parameters of scikit-learn's RandomForestRegressor by its own names. All features are tried at every split.
struct ForestParameters {
  int n_estimators = 100;
  std::optional<int> max_depth = std::nullopt;  ///< nothing: until leaves are pure
  int min_samples_split = 2;
  int min_samples_leaf = 1;
  int random_state = 42;
};

/// What a random forest (Breiman 2001: bootstrapped regression trees, squared error) predicts for one point. Of each
/// tree only the path is grown that the point takes, so this costs no more than sorting the samples a few times. Throws
/// std::invalid_argument unless there is a target for each row and at least one.
[[nodiscard]] double random_forest_prediction(const FeatureTable& features, std::span<const double> targets,
                                              std::span<const float> point, const ForestParameters& parameters);

}  // namespace lowgear::estimator
