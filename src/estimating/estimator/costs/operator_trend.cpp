#include "estimating/estimator/costs/operator_trend.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

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

/// What any implementation has to move, which is less than what usual kernels do: an embedding may find its rows in the
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

}  // namespace lowgear::estimator
