#include "estimating/estimator/costs/operator_regressor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/probability.h"
#include "planning/profile/regression/non_negative_least_squares.h"

namespace lowgear::estimator {

namespace {

/// Relative errors below this all count the same; beyond it, in proportion to their size and not its square.
constexpr double kUsualError = 0.02;
constexpr int kReweightings = 6;
/// No kernel is faster.
constexpr double kLeastKernelS = 1e-6;

/// Tokens in and out, and the weights of experts that can have got a row, whose gradients are written backward; what
/// lies between may stay in the cache.
double least_expert_bytes(const Operator& op) {
  const double used = static_cast<double>(std::min(op.rows, op.dims[3])) / static_cast<double>(op.dims[3]);
  const double weights = used * expert_weights(op) * (op.pass == Pass::forward ? 1 : 2);
  return (weights + 2 * static_cast<double>(op.dims[0]) * static_cast<double>(op.dims[1])) * bytes_of(op.dtype);
}

/// Bytes that any implementation has to move, fewer than usual kernels move: an embedding may find its rows in the
/// cache, a loss may be one kernel, an optimizer may keep half-precision weights alone, an addition may work in place.
double least_bytes(const Operator& op) {
  const double elements = static_cast<double>(op.dims[0]) * static_cast<double>(op.dims[1]) *
                          static_cast<double>(op.dims[2]) * static_cast<double>(op.dims[3]);
  const double bytes = elements * bytes_of(op.dtype);
  constexpr double kOptimizerBytes = 14;  // gradient 2, weight 2 + 2, two moments of half precision 4 + 4
  switch (op.kind) {
    case OperatorKind::embedding:
      return static_cast<double>(op.dims[0]) * static_cast<double>(op.dims[2]) * bytes_of(op.dtype);
    case OperatorKind::cross_entropy:
    case OperatorKind::fused_softmax:
      return bytes;
    case OperatorKind::optimizer:
      return kOptimizerBytes * elements;
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      return least_expert_bytes(op);
    default:
      return is_matrix_product(op.kind) ? memory_bytes(op) : 2 * bytes;
  }
}

}  // namespace

double least_time_s(const Operator& op, const GpuModel& gpu) {
  const double bytes = least_bytes(op);
  const double moving_s = bytes > gpu.l2_bytes ? bytes / gpu.memory_bytes_per_s : 0;
  return is_matrix_product(op.kind) ? std::max(moving_s, flops(op) / peak_flops(gpu, op.dtype)) : moving_s;
}

std::array<double, OperatorTrend::kTerms> OperatorTrend::terms(const Operator& op) {
  const auto dim = [&op](int i) { return static_cast<double>(op.dims[i]); };
  std::array<double, kTerms> terms{1, memory_bytes(op)};
  double* const own = terms.data() + 2;
  switch (op.kind) {
    case OperatorKind::linear:
      own[0] = flops(op);
      own[1] = dim(0) * dim(1);
      own[2] = dim(1) * dim(2);
      own[3] = dim(0) * dim(2);
      break;
    case OperatorKind::attention_scores:
    case OperatorKind::attention_values:
      own[0] = flops(op);
      own[1] = dim(0);
      own[2] = dim(0) * dim(1) * dim(2);
      own[3] = dim(0) * dim(2) * dim(3);
      own[4] = dim(0) * dim(1) * dim(3);
      break;
    case OperatorKind::fused_attention:
      own[0] = flops(op);
      own[1] = dim(0) * dim(1) * dim(2);
      own[2] = own[1] * dim(1);
      break;
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      own[0] = flops(op);
      own[1] = dim(0) * dim(1);
      own[2] = static_cast<double>(op.rows) * dim(1);
      own[3] = expert_weights(op);
      own[4] = dim(3);
      break;
    case OperatorKind::embedding:
      own[0] = dim(0);
      own[1] = dim(0) * dim(2);
      own[2] = dim(1) * dim(2);
      break;
    default:
      own[0] = dim(0) * dim(1);
      break;
  }
  return terms;
}

OperatorTrend::OperatorTrend(std::span<const TimedOperator> samples) {
  if (samples.empty()) throw std::invalid_argument("a trend needs samples");
  const auto rows = static_cast<Eigen::Index>(samples.size());
  constexpr auto kColumns = static_cast<Eigen::Index>(kTerms);
  Eigen::MatrixXd relative(rows, kColumns);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const TimedOperator& sample = samples[static_cast<std::size_t>(row)];
    const std::array<double, kTerms> terms = OperatorTrend::terms(sample.op);
    for (Eigen::Index i = 0; i < kColumns; ++i) {
      relative(row, i) = terms[static_cast<std::size_t>(i)] / sample.time_s;
    }
  }
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(rows);
  Eigen::VectorXd costs;
  for (int pass = 0; pass < kReweightings; ++pass) {
    const Eigen::MatrixXd weighted = weights.asDiagonal() * relative;
    costs =
        profile::solve_non_negative(weighted.transpose() * relative, weighted.transpose() * Eigen::VectorXd::Ones(rows))
            .values;
    weights = ((relative * costs).array() - 1).abs().max(kUsualError).inverse();
  }
  for (std::size_t i = 0; i < kTerms; ++i) cost_s_[i] = costs(static_cast<Eigen::Index>(i));
}

double OperatorTrend::time_s(const Operator& op) const {
  const std::array<double, kTerms> amounts = terms(op);
  double time_s = 0;
  for (std::size_t i = 0; i < kTerms; ++i) time_s += cost_s_[i] * amounts[i];
  return std::max(time_s, kLeastKernelS);
}

namespace {

/// Fewer samples say no more than the trend does.
constexpr std::size_t kLeastForTrees = 40;

/// Few trees, so that a fit takes some ten milliseconds: half as many again lowered errors on samples kept out of the
/// fit by less than a tenth of a per cent.
BoostingParameters boosting_parameters() {
  return {.n_estimators = 40,
          .max_depth = 6,
          .learning_rate = 0.35,
          .min_child_weight = 4,
          .reg_lambda = 0.3,
          .base_score = 0,
          .tree_method = "hist",
          .max_bin = 128};
}

struct Split {
  std::vector<TimedOperator> fitted;
  std::vector<TimedOperator> kept;
};

/// Keeps about a hundred samples out, but no more than a tenth and no fewer than a thirtieth.
Split split(std::span<const TimedOperator> samples) {
  const std::uint64_t kept_one_in = std::clamp<std::uint64_t>(samples.size() / 100, 10, 30);
  Split parts;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool keep = samples.size() >= kLeastForTrees && random_bits(i) % kept_one_in == 0;
    (keep ? parts.kept : parts.fitted).push_back(samples[i]);
  }
  return parts;
}

/// How full the last wave of 128 x 128 tiles of a matrix product is: tiles that there would be in full waves, over
/// those that there are.
double wave_excess(const Operator& op, int multiprocessors) {
  const bool several = op.kind == OperatorKind::fused_attention || is_of_experts(op.kind);
  if (!is_matrix_product(op.kind) || several || multiprocessors <= 0) return 1;
  constexpr double kTile = 128;
  const bool batched = op.kind != OperatorKind::linear;
  const double batch = batched ? static_cast<double>(op.dims[0]) : 1;
  const auto rows = static_cast<double>(op.dims[batched ? 1 : 0]);
  const auto columns = static_cast<double>(op.dims[batched ? 3 : 2]);
  const double waves = batch * std::ceil(rows / kTile) * std::ceil(columns / kTile) / multiprocessors;
  return std::ceil(waves) / waves;
}

/// Powers of two that divide a dimension, up to 256: kernels for aligned sizes are faster.
float alignment(std::int64_t dim) {
  constexpr int kMost = 8;
  return static_cast<float>(std::min(std::countr_zero(static_cast<std::uint64_t>(dim)), kMost));
}

/// What trees divide by: logarithms of the shape and of the work, and what decides which kernel runs and how well it
/// fills the GPU.
using Features = std::array<float, 11>;
Features features(const Operator& op, const GpuModel& gpu) {
  Features values{};
  for (std::size_t i = 0; i < 4; ++i) values[i] = static_cast<float>(std::log2(static_cast<double>(op.dims[i])));
  const double flops = lowgear::estimator::flops(op);
  values[4] = static_cast<float>(std::log2(flops));
  values[5] = static_cast<float>(std::log2(flops / memory_bytes(op)));
  values[6] = static_cast<float>(wave_excess(op, gpu.multiprocessors));
  for (std::size_t i = 1; i < 4; ++i) values[6 + i] = alignment(op.dims[i]);
  values[10] = static_cast<float>(std::log2(static_cast<double>(op.rows)));
  return values;
}

/// The error that nine in ten further ones do not exceed (split conformal prediction: Lei et al. 2018). 0 without any.
double usual_error(std::vector<double> errors) {
  if (errors.empty()) return 0;
  constexpr double kShare = 0.9;
  const double rank = std::ceil(kShare * static_cast<double>(errors.size() + 1));
  const auto index = std::min(static_cast<std::size_t>(rank), errors.size()) - 1;
  const auto at = errors.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(errors.begin(), at, errors.end());
  return *at;
}

/// Dimensions, then rows.
std::int64_t size_of(const Operator& op, std::size_t index) {
  return index < op.dims.size() ? op.dims[index] : op.rows;
}

std::string_view dim_name(OperatorKind kind, std::size_t dim) {
  using Names = std::array<std::string_view, 5>;
  const auto names = [kind]() -> Names {
    switch (kind) {
      case OperatorKind::embedding:
        return {"tokens", "vocabulary", "hidden size", ""};
      case OperatorKind::linear:
        return {"tokens", "inputs", "outputs", ""};
      case OperatorKind::rotary:
      case OperatorKind::fused_attention:
        return {"batch", "sequence", "heads", "head size"};
      case OperatorKind::attention_scores:
        return {"batch x heads", "sequence", "head size", "sequence"};
      case OperatorKind::attention_values:
        return {"batch x heads", "sequence", "sequence", "head size"};
      case OperatorKind::attention_mask:
      case OperatorKind::softmax:
      case OperatorKind::fused_softmax:
        return {"batch", "heads", "sequence", "sequence"};
      case OperatorKind::optimizer:
        return {"parameters", "", "", ""};
      case OperatorKind::experts:
      case OperatorKind::gated_experts:
        return {"tokens", "hidden size", "width", "experts", "rows of experts"};
      case OperatorKind::cross_entropy:
        return {"batch", "sequence", "vocabulary", ""};
      default:
        return {"batch", "sequence", "width", ""};
    }
  }();
  return names[dim];
}

}  // namespace

OperatorRegressor::OperatorRegressor(std::span<const TimedOperator> samples, GpuModel gpu)
    : gpu_(std::move(gpu)), trend_(samples) {
  const Split parts = split(samples);
  if (!parts.kept.empty()) {
    trend_ = OperatorTrend(parts.fitted);
    grow_trees(parts.fitted);
  }
  measure_errors(parts.kept.empty() ? parts.fitted : parts.kept);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto dim = [i](const TimedOperator& sample) { return size_of(sample.op, i); };
    const auto [low, high] = std::ranges::minmax(samples, {}, dim);
    ranges_[i] = {dim(low), dim(high)};
  }
  const auto work = [](const TimedOperator& sample) { return flops(sample.op); };
  const auto [least, most] = std::ranges::minmax(samples, {}, work);
  least_flops_ = work(least);
  most_flops_ = work(most);
}

void OperatorRegressor::grow_trees(std::span<const TimedOperator> samples) {
  const Features first = features(samples.front().op, gpu_);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto varies = [&](const TimedOperator& sample) { return features(sample.op, gpu_)[i] != first[i]; };
    if (std::ranges::any_of(samples, varies)) columns_.push_back(i);
  }
  if (columns_.empty()) return;
  FeatureTable table(columns_.size());
  std::vector<float> targets;
  for (const TimedOperator& sample : samples) {
    table.add(tree_input(sample.op));
    targets.push_back(static_cast<float>(std::log(sample.time_s / trend_.time_s(sample.op))));
  }
  trees_.emplace(table, targets, boosting_parameters());
}

std::vector<float> OperatorRegressor::tree_input(const Operator& op) const {
  const Features all = features(op, gpu_);
  std::vector<float> input;
  for (const std::size_t column : columns_) input.push_back(all[column]);
  return input;
}

double OperatorRegressor::time_s(const Operator& op) const {
  const double residual = trees_ ? trees_->predict(tree_input(op)) : 0;
  return std::max(trend_.time_s(op) * std::exp(residual), least_time_s(op, gpu_));
}

void OperatorRegressor::measure_errors(std::span<const TimedOperator> samples) {
  std::vector<double> errors;
  std::vector<double> trend_errors;
  for (const TimedOperator& sample : samples) {
    errors.push_back(std::abs(time_s(sample.op) / sample.time_s - 1));
    trend_errors.push_back(std::abs(trend_.time_s(sample.op) / sample.time_s - 1));
  }
  relative_error_ = usual_error(std::move(errors));
  trend_relative_error_ = usual_error(std::move(trend_errors));
}

std::string OperatorRegressor::outside(const Operator& op) const {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const std::int64_t size = size_of(op, i);
    if (size >= ranges_[i].low && size <= ranges_[i].high) continue;
    return fmt::format("{} {} (sampled {} to {})", dim_name(op.kind, i), size, ranges_[i].low, ranges_[i].high);
  }
  const double work = flops(op);
  if (work >= least_flops_ && work <= most_flops_) return {};
  return fmt::format("{:.3g} FLOPs (sampled {:.3g} to {:.3g})", work, least_flops_, most_flops_);
}

OperatorPrediction OperatorRegressor::predict(const Operator& op) const {
  OperatorPrediction prediction{.time_s = time_s(op), .outside = outside(op)};
  const double error = prediction.outside.empty() ? relative_error_ : std::max(relative_error_, trend_relative_error_);
  prediction.error_s = error * prediction.time_s;
  return prediction;
}

}  // namespace lowgear::estimator
