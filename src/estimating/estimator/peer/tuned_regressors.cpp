#include "estimating/estimator/peer/tuned_regressors.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/yaml.h"

namespace lowgear::estimator {
namespace {

constexpr int kMostTrees = 10'000;
constexpr int kDeepest = 64;

int integer_at(const YamlView& map, std::string_view key, int low, int high) {
  return static_cast<int>(map.at(key).integer_in(low, high));
}

ForestParameters forest_of(const YamlView& map) {
  map.require_only({"max_depth", "max_features", "min_samples_leaf", "min_samples_split", "n_estimators"});
  constexpr int kMostRows = 1 << 20;
  ForestParameters parameters;
  parameters.n_estimators = integer_at(map, "n_estimators", 1, kMostTrees);
  parameters.min_samples_leaf = integer_at(map, "min_samples_leaf", 1, kMostRows);
  parameters.min_samples_split = integer_at(map, "min_samples_split", 2, kMostRows);
  if (map.at("max_depth").text() != "None") parameters.max_depth = integer_at(map, "max_depth", 1, kDeepest);
  if (map.at("max_features").text() != "None") map.at("max_features").fail("only None is known");
  return parameters;
}

BoostingParameters boosting_of(const YamlView& map) {
  map.require_only(
      {"colsample_bytree", "gamma", "learning_rate", "max_depth", "min_child_weight", "n_estimators", "subsample"});
  return {.n_estimators = integer_at(map, "n_estimators", 1, kMostTrees),
          .max_depth = integer_at(map, "max_depth", 1, kDeepest),
          .learning_rate = map.at("learning_rate").number_in(1e-6, 1),
          .min_child_weight = map.at("min_child_weight").number_in(0, 1e6),
          .gamma = map.at("gamma").number_in(0, 1e6),
          .subsample = map.at("subsample").number_in(0.01, 1),
          .colsample_bytree = map.at("colsample_bytree").number_in(0.01, 1)};
}

TunedRegressor regressor_of(const CsvTable& table, std::size_t row) {
  const std::size_t config = table.column("Best_config");
  const std::size_t model = table.column("Best_model");
  const YamlView map = YamlView::parse(table.text(row, config), to_string(table.where(row, config)));
  const std::string& name = table.text(row, model);
  if (name == "rforest") return forest_of(map);
  if (name == "xgboost") return boosting_of(map);
  throw_input_error(table.where(row, model), fmt::format("{} is not a regressor", quote(name)),
                    "give rforest or xgboost");
}

std::string key_of(std::string_view function, std::string_view dtype, std::string_view rest) {
  return fmt::format("{}/{}/{}", function, dtype, rest);
}

std::string group_key(long long nodes, long long gpus_per_node) { return fmt::format("{}x{}", nodes, gpus_per_node); }

const TunedRegressor& at(const std::map<std::string, TunedRegressor, std::less<>>& regressors, const std::string& key,
                         const std::string& source) {
  const auto found = regressors.find(key);
  if (found != regressors.end()) return found->second;
  throw_input_error({source, 0, 0}, fmt::format("has no regressor for {}", key), "add its row, or sample the function");
}

}  // namespace

TunedRegressors::TunedRegressors(std::string_view csv, std::string source) : source_(std::move(source)) {
  const CsvTable table(csv, source_);
  const std::size_t function = table.column("Function");
  const std::size_t dtype = table.column("Precision");
  const bool of_operators = table.has_column("Propagation");
  const std::size_t rest = table.column(of_operators ? "Propagation" : "Nodes");
  const std::size_t per_node = of_operators ? rest : table.column("GPUsPerNode");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string last =
        of_operators ? table.text(row, rest) : group_key(table.integer(row, rest), table.integer(row, per_node));
    regressors_.insert_or_assign(key_of(table.text(row, function), table.text(row, dtype), last),
                                 regressor_of(table, row));
  }
}

const TunedRegressor& TunedRegressors::find(std::string_view function, DataType dtype,
                                            std::string_view propagation) const {
  return at(regressors_, key_of(function, name(dtype), propagation), source_);
}

const TunedRegressor& TunedRegressors::find(std::string_view function, DataType dtype, int nodes,
                                            int gpus_per_node) const {
  return at(regressors_, key_of(function, name(dtype), group_key(nodes, gpus_per_node)), source_);
}

double predict(const TunedRegressor& regressor, const FeatureTable& features, std::span<const double> targets,
               std::span<const float> point) {
  if (const auto* const forest = std::get_if<ForestParameters>(&regressor)) {
    return random_forest_prediction(features, targets, point, *forest);
  }
  const std::vector<float> labels(targets.begin(), targets.end());
  return GradientBoostedTrees(features, labels, std::get<BoostingParameters>(regressor)).predict(point);
}

}  // namespace lowgear::estimator
