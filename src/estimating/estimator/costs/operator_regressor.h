#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimating/estimator/costs/gradient_boosted_trees.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// A measured time of an operator.
struct TimedOperator {
  Operator op;
  double time_s = 0;
  int line = 0;  ///< of the sampling file
};

/// Least time that an operator can take on a GPU, by its data sheet: its floating-point operations at peak rate if
/// tensor cores do them, or the bytes that any kernel has to move at the memory's bandwidth, unless they fit into the
/// L2 cache. Throws InputError where the GPU has no such type.
[[nodiscard]] double least_time_s(const Operator& op, const GpuModel& gpu);

/// Time of one kind of operator and one pass as a sum of terms with costs of at least 0: a launch, floating-point
/// operations, bytes, and the sizes of its tensors. Beyond the samples this sum keeps the right form, unlike trees;
/// trees fit the residuals that it leaves.
class OperatorTrend {
 public:
  /// Fits relative errors robustly: outliers count little. All samples are of one kind and pass. Throws
  /// std::invalid_argument without samples.
  explicit OperatorTrend(std::span<const TimedOperator> samples);

  /// Above 0.
  [[nodiscard]] double time_s(const Operator& op) const;

 private:
  static constexpr std::size_t kTerms = 7;
  [[nodiscard]] static std::array<double, kTerms> terms(const Operator& op);

  std::array<double, kTerms> cost_s_{};  ///< of one unit of each term
};

struct OperatorPrediction {
  double time_s = 0;
  double error_s = 0;   ///< half the width of a 90 % interval
  std::string outside;  ///< the size outside the samples: `tokens 512 (sampled 2048 to 40960)`; empty if all are inside
};

/// Predicts the time of one kind of operator and one pass on one GPU from samples: the trend times a factor of boosted
/// trees (they fit the logarithm of time over trend to logarithms of the shape), never less than the data sheet allows.
/// Beyond the samples the trend continues, and the interval is the trend's.
class OperatorRegressor {
 public:
  /// Keeps some samples out of the fit to measure the interval by their errors. Grows no trees for few samples. All
  /// samples are of one kind and pass. Throws std::invalid_argument without samples.
  OperatorRegressor(std::span<const TimedOperator> samples, GpuModel gpu);

  [[nodiscard]] OperatorPrediction predict(const Operator& op) const;

 private:
  struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };

  [[nodiscard]] double time_s(const Operator& op) const;
  [[nodiscard]] std::vector<float> tree_input(const Operator& op) const;
  void grow_trees(std::span<const TimedOperator> samples);
  void measure_errors(std::span<const TimedOperator> samples);
  [[nodiscard]] std::string outside(const Operator& op) const;

  GpuModel gpu_;
  OperatorTrend trend_;
  std::vector<std::size_t> columns_;  ///< features that differ among the samples: the inputs of trees
  std::optional<GradientBoostedTrees> trees_;
  std::array<Range, 5> ranges_;  ///< of dims, and of rows
  double least_flops_ = 0;
  double most_flops_ = 0;
  double relative_error_ = 0;        ///< of nine in ten predictions
  double trend_relative_error_ = 0;  ///< the same for the trend without trees
};

}  // namespace lowgear::estimator
