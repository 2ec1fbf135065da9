#include "rivals/published_estimator/tuned_regressors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/yaml.h"
#include "base/core/probability.h"

namespace lowgear::published_estimator {

namespace {

/// Feature values nearer than this are one (scikit-learn's FEATURE_THRESHOLD).
constexpr float kSameFeature = 1e-7F;

struct NodeSplit {
  std::size_t feature = 0;
  float threshold = 0;  ///< goes left up to it
  double score = 0;     ///< what the split makes of the sums of squares; the higher the better
};

/// The samples that reach one node of one tree.
class Node {
 public:
  /// `orders`: for each feature the rows by its value. `weights`: how often the bootstrap drew each row.
  Node(const estimator::FeatureTable& features, std::span<const double> targets, std::span<const double> weights,
       std::vector<std::vector<std::uint32_t>> orders)
      : features_(features), targets_(targets), weights_(weights), orders_(std::move(orders)) {
    for (std::vector<std::uint32_t>& order : orders_) {
      std::erase_if(order, [&](std::uint32_t row) { return weights_[row] == 0; });
    }
    sum_up();
  }

  [[nodiscard]] std::size_t rows() const { return orders_.front().size(); }
  [[nodiscard]] double mean() const { return sum_ / weight_; }

  /// The best split that leaves `least` rows on either side; nothing where none lowers the error.
  [[nodiscard]] std::optional<NodeSplit> best_split(std::size_t least) const {
    std::optional<NodeSplit> best;
    for (std::size_t feature = 0; feature < orders_.size(); ++feature) {
      const std::optional<NodeSplit> split = best_split_of(feature, least);
      if (split && (!best || split->score > best->score)) best = split;
    }
    const double unsplit = sum_ * sum_ / weight_;
    constexpr double kRounding = 1e-12;
    if (best && best->score <= unsplit * (1 + kRounding)) return std::nullopt;
    return best;
  }

  /// Keeps the side of the split on which the point is.
  void descend(const NodeSplit& split, std::span<const float> point) {
    const bool left = point[split.feature] <= split.threshold;
    for (std::vector<std::uint32_t>& order : orders_) {
      std::erase_if(order, [&](std::uint32_t row) { return (value(row, split.feature) <= split.threshold) != left; });
    }
    sum_up();
  }

 private:
  [[nodiscard]] float value(std::uint32_t row, std::size_t feature) const { return features_.row(row)[feature]; }

  void sum_up() {
    weight_ = sum_ = 0;
    for (const std::uint32_t row : orders_.front()) {
      weight_ += weights_[row];
      sum_ += weights_[row] * targets_[row];
    }
  }

  [[nodiscard]] std::optional<NodeSplit> best_split_of(std::size_t feature, std::size_t least) const {
    const std::vector<std::uint32_t>& order = orders_[feature];
    std::optional<NodeSplit> best;
    double left_weight = 0;
    double left_sum = 0;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      left_weight += weights_[order[i]];
      left_sum += weights_[order[i]] * targets_[order[i]];
      const float low = value(order[i], feature);
      const float high = value(order[i + 1], feature);
      if (high <= low + kSameFeature || i + 1 < least || order.size() - i - 1 < least) continue;
      const double right_sum = sum_ - left_sum;
      const double score = left_sum * left_sum / left_weight + right_sum * right_sum / (weight_ - left_weight);
      if (!best || score > best->score) best = NodeSplit{feature, low / 2 + high / 2, score};
    }
    return best;
  }

  const estimator::FeatureTable& features_;
  std::span<const double> targets_;
  std::span<const double> weights_;
  std::vector<std::vector<std::uint32_t>> orders_;
  double weight_ = 0;
  double sum_ = 0;
};

/// How often each of `rows` is drawn when as many are drawn with replacement.
std::vector<double> bootstrap(std::size_t rows, std::uint64_t seed) {
  std::vector<double> weights(rows, 0);
  for (std::size_t i = 0; i < rows; ++i) weights[random_bits(random_bits(seed) + i) % rows] += 1;
  return weights;
}

}  // namespace

double random_forest_prediction(const estimator::FeatureTable& features, std::span<const double> targets,
                                std::span<const float> point, const ForestParameters& parameters) {
  const std::size_t rows = features.rows();
  if (targets.size() != rows || rows == 0 || point.size() != features.columns()) {
    throw std::invalid_argument("a random forest needs a target for each row");
  }
  std::vector<std::vector<std::uint32_t>> orders(features.columns(), std::vector<std::uint32_t>(rows));
  for (std::size_t feature = 0; feature < orders.size(); ++feature) {
    std::iota(orders[feature].begin(), orders[feature].end(), 0U);
    std::ranges::stable_sort(orders[feature], {}, [&](std::uint32_t row) { return features.row(row)[feature]; });
  }
  double sum = 0;
  for (int tree = 0; tree < parameters.n_estimators; ++tree) {
    const std::uint64_t seed =
        (static_cast<std::uint64_t>(parameters.random_state) << 32U) + static_cast<unsigned>(tree);
    const std::vector<double> weights = bootstrap(rows, seed);
    Node node(features, targets, weights, orders);
    for (int depth = 0; !parameters.max_depth || depth < *parameters.max_depth; ++depth) {
      if (node.rows() < static_cast<std::size_t>(parameters.min_samples_split)) break;
      const std::optional<NodeSplit> split = node.best_split(static_cast<std::size_t>(parameters.min_samples_leaf));
      if (!split) break;
      node.descend(*split, point);
    }
    sum += node.mean();
  }
  return sum / parameters.n_estimators;
}

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
  if (map.at("max_features").text() != "None") map.at("max_features").fail("only None is supported");
  return parameters;
}

estimator::BoostingParameters boosting_of(const YamlView& map) {
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

const TunedRegressor& TunedRegressors::find(std::string_view function, estimator::DataType dtype,
                                            std::string_view propagation) const {
  return at(regressors_, key_of(function, name(dtype), propagation), source_);
}

const TunedRegressor& TunedRegressors::find(std::string_view function, estimator::DataType dtype, int nodes,
                                            int gpus_per_node) const {
  return at(regressors_, key_of(function, name(dtype), group_key(nodes, gpus_per_node)), source_);
}

double predict(const TunedRegressor& regressor, const estimator::FeatureTable& features,
               std::span<const double> targets, std::span<const float> point) {
  if (const auto* const forest = std::get_if<ForestParameters>(&regressor)) {
    return random_forest_prediction(features, targets, point, *forest);
  }
  const std::vector<float> labels(targets.begin(), targets.end());
  return estimator::GradientBoostedTrees(features, labels, std::get<estimator::BoostingParameters>(regressor))
      .predict(point);
}

}  // namespace lowgear::published_estimator
