#include "planning/joint/bound/price_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lowgear::joint {
namespace {

constexpr double kFirstTemperature = 0.1;  // of an op's range of energies
constexpr double kLastTemperature = 1e-4;
constexpr double kCooling = 0.3;
constexpr int kStepsOfALevel = 20;
constexpr double kLevelDone = 1e-3;  ///< Newton decrement, relative to the temperature, that ends a level
constexpr double kToTheWall = 0.9;   ///< share of the way to a price of zero that a step may go
constexpr double kLeastStep = 1e-6;
constexpr double kSufficient = 1e-4;  ///< Armijo's share of the promised gain

/// A symmetric matrix, row by row.
class Matrix {
 public:
  explicit Matrix(std::size_t size) : size_(size), values_(size * size, 0) {}
  [[nodiscard]] double& at(std::size_t row, std::size_t column) { return values_[(row * size_) + column]; }

  /// Solves in place for a positive definite matrix, by Cholesky; false where it is not one. The matrix is used up.
  [[nodiscard]] bool solve(std::span<double> right) {
    for (std::size_t j = 0; j < size_; ++j) {
      for (std::size_t i = j; i < size_; ++i) {
        double sum = at(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        if (i == j && !(sum > 0)) return false;
        at(i, j) = i == j ? std::sqrt(sum) : sum / at(j, j);
      }
    }
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t k = 0; k < i; ++k) right[i] -= at(i, k) * right[k];
      right[i] /= at(i, i);
    }
    for (std::size_t i = size_; i-- > 0;) {
      for (std::size_t k = i + 1; k < size_; ++k) right[i] -= at(k, i) * right[k];
      right[i] /= at(i, i);
    }
    return true;
  }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

/// An op's smoothed least cost at a price: ways are taken with weights exp(-cost / temperature).
struct SmoothedCost {
  double cost = 0;
  double time = 0;      ///< mean: the first derivative by the price
  double variance = 0;  ///< of the time; over the temperature, the negative second derivative
};

SmoothedCost smoothed(const PricedOp& op, double price, double temperature) {
  const auto cost_of = [&](std::size_t way) { return op.energy[way] + (price * op.time[way]); };
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t way = 0; way < op.time.size(); ++way) least = std::min(least, cost_of(way));
  double weight = 0;
  double first = 0;
  double second = 0;
  for (std::size_t way = 0; way < op.time.size(); ++way) {
    const double share = std::exp((least - cost_of(way)) / temperature);
    weight += share;
    first += share * op.time[way];
    second += share * op.time[way] * op.time[way];
  }
  const double mean = first / weight;
  return {least - (temperature * std::log(weight)), mean, std::max(0.0, (second / weight) - (mean * mean))};
}

double energy_range(const PricedOp& op) {
  const auto [least, most] = std::ranges::minmax(op.energy);
  return most - least;
}

class PriceSearch {
 public:
  PriceSearch(std::span<const PricedOp> ops, std::size_t price_count)
      : ops_(ops), prices_(price_count, 1.0 / static_cast<double>(price_count)) {
    const auto add = [](double sum, const PricedOp& op) { return sum + (op.count * energy_range(op)); };
    scale_ = std::max(1e-12, std::accumulate(ops.begin(), ops.end(), 0.0, add));
    for (double& price : prices_) price *= scale_;
  }

  std::vector<double> run() {
    for (double level = kFirstTemperature; level >= kLastTemperature; level *= kCooling) {
      temperature_ = level;
      for (int step = 0; step < kStepsOfALevel; ++step) {
        if (!improve()) break;
      }
    }
    return prices_;
  }

 private:
  /// All prices' barrier together weighs as much as smoothing does.
  [[nodiscard]] double barrier() const { return temperature_ * scale_ / static_cast<double>(4 * prices_.size()); }
  [[nodiscard]] double temperature_of(const PricedOp& op) const {
    return std::max(temperature_ * energy_range(op), 1e-300);
  }
  [[nodiscard]] static double price_of(const PricedOp& op, std::span<const double> prices) {
    double sum = 0;
    for (const Charge& charge : op.charges) sum += charge.times * prices[charge.price];
    return sum;
  }

  [[nodiscard]] double value(std::span<const double> prices) const {
    double sum = 0;
    for (const PricedOp& op : ops_) sum += op.count * smoothed(op, price_of(op, prices), temperature_of(op)).cost;
    for (const double price : prices) sum += (barrier() * std::log(price)) - price;
    return sum;
  }

  /// One step of Newton's method; false when the level is done, or no step helps.
  bool improve() {
    const std::size_t size = prices_.size();
    std::vector<double> gradient(size);
    Matrix curvature(size);
    for (std::size_t i = 0; i < size; ++i) {
      gradient[i] = (barrier() / prices_[i]) - 1;
      curvature.at(i, i) = barrier() / (prices_[i] * prices_[i]);
    }
    for (const PricedOp& op : ops_) {
      const double temperature = temperature_of(op);
      const SmoothedCost cost = smoothed(op, price_of(op, prices_), temperature);
      for (const Charge& a : op.charges) {
        gradient[a.price] += op.count * a.times * cost.time;
        const double bend = op.count * a.times * cost.variance / temperature;
        for (const Charge& b : op.charges) {
          if (b.price <= a.price) curvature.at(a.price, b.price) += bend * b.times;
        }
      }
    }
    std::vector<double> step = gradient;
    if (!curvature.solve(step)) return false;
    const double promised = std::inner_product(step.begin(), step.end(), gradient.begin(), 0.0);
    if (!(promised > kLevelDone * temperature_ * scale_)) return false;
    return walk(step, promised);
  }

  bool walk(std::span<const double> step, double promised) {
    double length = 1;
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (step[i] < 0) length = std::min(length, -kToTheWall * prices_[i] / step[i]);
    }
    const double before = value(prices_);
    std::vector<double> next(prices_.size());
    for (; length >= kLeastStep; length /= 2) {
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = prices_[i] + (length * step[i]);
      if (value(next) >= before + (kSufficient * length * promised)) {
        prices_ = next;
        return true;
      }
    }
    return false;
  }

  std::span<const PricedOp> ops_;
  std::vector<double> prices_;
  double scale_ = 0;  ///< energy that all ops can save
  double temperature_ = kFirstTemperature;
};

}  // namespace

std::vector<double> search_prices(std::span<const PricedOp> ops, std::size_t price_count) {
  return PriceSearch(ops, price_count).run();
}

}  // namespace lowgear::joint
