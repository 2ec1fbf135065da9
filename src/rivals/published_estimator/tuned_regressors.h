#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

#include "estimating/estimator/costs/gradient_boosted_trees.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::published_estimator {

/// Parameters of scikit-learn's RandomForestRegressor under its names. Every split tries all features.
struct ForestParameters {
  int n_estimators = 100;
  std::optional<int> max_depth = std::nullopt;  ///< empty: until leaves are pure
  int min_samples_split = 2;
  int min_samples_leaf = 1;
  int random_state = 42;
};

/// Prediction of a random forest (Breiman 2001: bootstrapped regression trees, squared error) for one point. It grows
/// only the point's path of each tree, which costs about as much as sorting the samples a few times. Throws
/// std::invalid_argument unless there is a target for each row, and at least one.
[[nodiscard]] double random_forest_prediction(const estimator::FeatureTable& features, std::span<const double> targets,
                                              std::span<const float> point, const ForestParameters& parameters);

/// A regressor of the published estimator with the parameters that its authors chose.
using TunedRegressor = std::variant<ForestParameters, estimator::BoostingParameters>;

/// The file `{GPU}.csv` next to the sampling files of the published estimator: the regressor for each function, tuned
/// by its authors.
class TunedRegressors {
 public:
  /// Reads `Function`, `Precision`, `Best_model` (`rforest` or `xgboost`), `Best_config` (a Python dictionary) and
  /// either `Propagation` (operators) or `Nodes` and `GPUsPerNode` (collectives). Throws InputError with line and
  /// column.
  TunedRegressors(std::string_view csv, std::string source);

  /// For an operator; `propagation` is `fwd`, `bwd` or `dur`. Throws InputError if the file has none.
  [[nodiscard]] const TunedRegressor& find(std::string_view function, estimator::DataType dtype,
                                           std::string_view propagation) const;
  /// For a collective among `nodes` x `gpus_per_node`, 0 x 0 for all groups together.
  [[nodiscard]] const TunedRegressor& find(std::string_view function, estimator::DataType dtype, int nodes,
                                           int gpus_per_node) const;

 private:
  std::string source_;
  std::map<std::string, TunedRegressor, std::less<>> regressors_;  ///< by function, type and the rest, with `/` between
};

/// Fits the regressor to the samples and predicts one point.
[[nodiscard]] double predict(const TunedRegressor& regressor, const estimator::FeatureTable& features,
                             std::span<const double> targets, std::span<const float> point);

}  // namespace lowgear::published_estimator
