#include "estimating/estimator/peer/random_forest.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/core/random.h"

namespace lowgear::estimator {
namespace {

/// Feature values nearer than this are one (scikit-learn's FEATURE_THRESHOLD).
constexpr float kSameFeature = 1e-7F;

struct Split {
  std::size_t feature = 0;
  float threshold = 0;  ///< goes left up to it
  double score = 0;     ///< what the split makes of the sums of squares; the higher the better
};

/// The samples that reach one node of one tree.
class Node {
 public:
  /// `orders`: for each feature the rows by its value. `weights`: how often the bootstrap drew each row.
  Node(const FeatureTable& features, std::span<const double> targets, std::span<const double> weights,
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
  [[nodiscard]] std::optional<Split> best_split(std::size_t least) const {
    std::optional<Split> best;
    for (std::size_t feature = 0; feature < orders_.size(); ++feature) {
      const std::optional<Split> split = best_split_of(feature, least);
      if (split && (!best || split->score > best->score)) best = split;
    }
    const double unsplit = sum_ * sum_ / weight_;
    constexpr double kRounding = 1e-12;
    if (best && best->score <= unsplit * (1 + kRounding)) return std::nullopt;
    return best;
  }

  /// Keeps the side of the split on which the point is.
  void descend(const Split& split, std::span<const float> point) {
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

  [[nodiscard]] std::optional<Split> best_split_of(std::size_t feature, std::size_t least) const {
    const std::vector<std::uint32_t>& order = orders_[feature];
    std::optional<Split> best;
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
      if (!best || score > best->score) best = Split{feature, low / 2 + high / 2, score};
    }
    return best;
  }

  const FeatureTable& features_;
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

double random_forest_prediction(const FeatureTable& features, std::span<const double> targets,
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
      const std::optional<Split> split = node.best_split(static_cast<std::size_t>(parameters.min_samples_leaf));
      if (!split) break;
      node.descend(*split, point);
    }
    sum += node.mean();
  }
  return sum / parameters.n_estimators;
}

}  // namespace lowgear::estimator
