#include "planning/joint/bound/price_search.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace lowgear::joint {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFirstTemperature = 0.1;  // of an op's range of energies
constexpr double kLastTemperature = 1e-4;
constexpr double kCooling = 0.3;
constexpr int kStepsOfALevel = 20;
constexpr double kLevelDone = 1e-3;  ///< Newton decrement, relative to the temperature, that ends a level
constexpr double kToTheWall = 0.9;   ///< share of the way to a price of zero that a step may go
constexpr double kLeastStep = 1e-6;
constexpr double kSufficient = 1e-4;  ///< Armijo's share of the promised gain

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

/// How often each op is charged each price: rows of charges, of which ops that are charged alike share one.
class ChargeTable {
 public:
  ChargeTable(std::span<const PricedOp> ops, std::size_t price_count) {
    std::map<std::vector<Charge>, Index> known;
    for (const PricedOp& op : ops) {
      row_of_op_.push_back(known.try_emplace(op.charges, static_cast<Index>(known.size())).first->second);
    }
    times_ = MatrixXd::Zero(static_cast<Index>(known.size()), static_cast<Index>(price_count));
    for (const auto& [charges, row] : known) {
      for (const Charge& charge : charges) times_(row, static_cast<Index>(charge.price)) += charge.times;
    }
  }

  [[nodiscard]] Index rows() const { return times_.rows(); }
  [[nodiscard]] Index row(std::size_t op) const { return row_of_op_[op]; }
  /// What ops pay a unit of time, by row.
  [[nodiscard]] VectorXd paid(const VectorXd& prices) const { return times_ * prices; }
  /// By price, what rows weigh.
  [[nodiscard]] VectorXd by_price(const VectorXd& of_rows) const { return times_.transpose() * of_rows; }
  /// By price and price (the lower triangle), what rows weigh; none less than nothing.
  [[nodiscard]] MatrixXd by_prices(const VectorXd& of_rows) const {
    MatrixXd weighted(times_.cols(), times_.rows());
    Index used = 0;
    for (Index row = 0; row < times_.rows(); ++row) {
      if (of_rows[row] > 0) weighted.col(used++) = std::sqrt(of_rows[row]) * times_.row(row).transpose();
    }
    MatrixXd result = MatrixXd::Zero(times_.cols(), times_.cols());
    if (used == 0) return result;  // Eigen divides by the number of columns
    result.selfadjointView<Eigen::Lower>().rankUpdate(weighted.leftCols(used));
    return result;
  }

 private:
  std::vector<Index> row_of_op_;
  MatrixXd times_;
};

class PriceSearch {
 public:
  PriceSearch(std::span<const PricedOp> ops, std::size_t price_count, planner::WorkReport* work)
      : ops_(ops), work_(work), charges_(ops, price_count) {
    const auto add = [](double sum, const PricedOp& op) { return sum + (op.count * energy_range(op)); };
    scale_ = std::max(1e-12, std::accumulate(ops.begin(), ops.end(), 0.0, add));
    const auto size = static_cast<Index>(price_count);
    prices_ = VectorXd::Constant(size, scale_ / static_cast<double>(size));
  }

  std::vector<double> run() {
    for (double level = kFirstTemperature; level >= kLastTemperature; level *= kCooling) {
      temperature_ = level;
      for (int step = 0; step < kStepsOfALevel; ++step) {
        if (!improve()) break;
      }
    }
    return {prices_.begin(), prices_.end()};
  }

 private:
  /// All prices' barrier together weighs as much as smoothing does.
  [[nodiscard]] double barrier() const { return temperature_ * scale_ / static_cast<double>(4 * prices_.size()); }
  [[nodiscard]] double temperature_of(const PricedOp& op) const {
    return std::max(temperature_ * energy_range(op), 1e-300);
  }

  [[nodiscard]] double value(const VectorXd& prices) const {
    const VectorXd paid = charges_.paid(prices);
    double sum = (barrier() * prices.array().log()).sum() - prices.sum();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      sum += ops_[i].count * smoothed(ops_[i], paid[charges_.row(i)], temperature_of(ops_[i])).cost;
    }
    return sum;
  }

  /// One step of Newton's method; false when the level is done, or no step helps.
  bool improve() {
    // A step multiplies the charges by the prices some times, and prices by prices for the ops that they bend.
    if (work_ != nullptr) work_->visited(ops_.size() * static_cast<std::size_t>(prices_.size()));
    const VectorXd paid = charges_.paid(prices_);
    VectorXd time = VectorXd::Zero(charges_.rows());
    VectorXd bend = VectorXd::Zero(charges_.rows());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const double temperature = temperature_of(ops_[i]);
      const SmoothedCost cost = smoothed(ops_[i], paid[charges_.row(i)], temperature);
      time[charges_.row(i)] += ops_[i].count * cost.time;
      bend[charges_.row(i)] += ops_[i].count * cost.variance / temperature;
    }
    const VectorXd gradient = charges_.by_price(time).array() + (barrier() / prices_.array()) - 1;
    MatrixXd curvature = charges_.by_prices(bend);
    curvature.diagonal().array() += barrier() / prices_.array().square();
    const Eigen::LLT<Eigen::Ref<MatrixXd>> solver(curvature);
    if (solver.info() != Eigen::Success) return false;
    const VectorXd step = solver.solve(gradient);
    const double promised = step.dot(gradient);
    if (!(promised > kLevelDone * temperature_ * scale_)) return false;
    return walk(step, promised);
  }

  bool walk(const VectorXd& step, double promised) {
    double length = 1;
    for (Index i = 0; i < step.size(); ++i) {
      if (step[i] < 0) length = std::min(length, -kToTheWall * prices_[i] / step[i]);
    }
    const double before = value(prices_);
    for (; length >= kLeastStep; length /= 2) {
      const VectorXd next = prices_ + (length * step);
      if (value(next) >= before + (kSufficient * length * promised)) {
        prices_ = next;
        return true;
      }
    }
    return false;
  }

  std::span<const PricedOp> ops_;
  planner::WorkReport* work_;
  ChargeTable charges_;
  VectorXd prices_;
  double scale_ = 0;  ///< energy that all ops can save
  double temperature_ = kFirstTemperature;
};

}  // namespace

std::vector<double> search_prices(std::span<const PricedOp> ops, std::size_t price_count, planner::WorkReport* work) {
  return PriceSearch(ops, price_count, work).run();
}

}  // namespace lowgear::joint
