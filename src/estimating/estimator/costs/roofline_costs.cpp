#include "estimating/estimator/costs/roofline_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "estimating/estimator/job/transformer_shape.h"

namespace lowgear::estimator {
namespace {

/// Half the width of a 90 % interval: nine in ten products that were sampled on an A100 are within it.
constexpr double kOperatorRelativeError = 0.15;

struct Tile {
  double rows = 0;
  double columns = 0;
  double share = 0;  ///< of the best tile's rate
};

/// Tiles of cuBLAS, largest first. Smaller ones read more per multiplication.
constexpr std::array kTiles{Tile{256, 128, 1.0}, Tile{128, 128, 0.97}, Tile{128, 64, 0.85}};
/// What filling and emptying a tile's pipeline costs, as if the inner dimension were longer.
constexpr double kTileOverhead = 128;
constexpr double kHzPerMhz = 1e6;

/// [m, k] times [k, n], `batch` times.
struct Product {
  double batch = 1;
  double m = 0;
  double k = 0;
  double n = 0;
};

/// FLOPs that multiprocessors are occupied for, idle ones in the last wave included.
double occupied_flops(const Product& product, int multiprocessors) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const auto with = [&](double rows, double columns) {
      const double tiles = product.batch * std::ceil(product.m / rows) * std::ceil(product.n / columns);
      const double waves = std::ceil(tiles / multiprocessors);
      return waves * multiprocessors * rows * columns * (product.k + kTileOverhead) * 2 / tile.share;
    };
    const double flops = std::min(with(tile.rows, tile.columns), with(tile.columns, tile.rows));
    if (best == 0 || flops < best) best = flops;
  }
  return best;
}

double dim(const Operator& op, std::size_t i) { return static_cast<double>(op.dims[i]); }

}  // namespace

RooflineCosts::RooflineCosts(GpuModel gpu) : gpu_(std::move(gpu)) {}

double RooflineCosts::memory_s(const Operator& op) const {
  const PassShares& shares = gpu_.efficiency.memory[static_cast<std::size_t>(op.kind)];
  const double share = op.pass == Pass::forward ? shares.forward : shares.backward;
  return lowgear::estimator::memory_bytes(op) / (gpu_.memory_bytes_per_s * share);
}

RooflineCosts::Split RooflineCosts::linear_s(const Operator& op) const {
  const double rate = peak_flops(gpu_, op.dtype) * gpu_.efficiency.matmul_peak;
  const double tokens = dim(op, 0);
  const double inputs = dim(op, 1);
  const double outputs = dim(op, 2);
  const auto product_s = [&](double m, double k, double n) {
    return occupied_flops({1, m, k, n}, gpu_.multiprocessors) / rate;
  };
  const double computing_s = op.pass == Pass::forward
                                 ? product_s(tokens, inputs, outputs)
                                 : product_s(tokens, outputs, inputs) + product_s(inputs, tokens, outputs);
  const double moving_s = memory_s(op);
  return computing_s >= moving_s ? Split{computing_s, 0} : Split{0, moving_s};
}

/// The matrix of all pairs of tokens passes through memory and limits the products. One that reads it computes
/// concurrently with that; one that writes it has little to do for each element, and computes before.
RooflineCosts::Split RooflineCosts::batched_s(const Operator& op) const {
  const double rate = peak_flops(gpu_, op.dtype) * gpu_.efficiency.matmul_peak;
  const Operator forward{op.kind, Pass::forward, {op.dims[0], op.dims[1], op.dims[2], op.dims[3]}, op.dtype};
  const double each_s = flops(forward) / rate;
  const double moving_s =
      lowgear::estimator::memory_bytes(forward) / (gpu_.memory_bytes_per_s * gpu_.efficiency.batched_product);
  const Split writes{each_s, moving_s};
  const Split reads = each_s >= moving_s ? Split{each_s, 0} : Split{0, moving_s};
  const bool scores = op.kind == OperatorKind::attention_scores;
  if (op.pass == Pass::forward) return scores ? writes : reads;
  const Split& first = scores ? reads : writes;
  return {first.core_s + reads.core_s, first.memory_s + reads.memory_s};
}

/// Half of the pairs lie above the diagonal, more outside of a window.
double RooflineCosts::fused_dropout_s(const Operator& op) const {
  const KernelEfficiency& efficiency = gpu_.efficiency;
  const bool forward = op.pass == Pass::forward;
  const double pairs =
      0.5 * dim(op, 0) * dim(op, 1) * dim(op, 2) * dim(op, 3) * pairs_within_window(op.dims[3], op.window);
  const double cycles = pairs * (forward ? efficiency.dropout_cycles_forward : efficiency.dropout_cycles_backward);
  return cycles / (gpu_.multiprocessors * gpu_.clocks.max_mhz * kHzPerMhz) +
         (forward ? efficiency.dropout_start_forward_s : efficiency.dropout_start_backward_s);
}

/// As one large product; a job's own work has the parts, which are costed one by one.
RooflineCosts::Split RooflineCosts::experts_s(const Operator& op) const {
  const double computing_s = flops(op) / (peak_flops(gpu_, op.dtype) * gpu_.efficiency.matmul_peak);
  const double moving_s = memory_s(op);
  return computing_s >= moving_s ? Split{computing_s, 0} : Split{0, moving_s};
}

WorkCost RooflineCosts::cost(const Operator& op) const {
  Split split;
  switch (op.kind) {
    case OperatorKind::linear:
      split = linear_s(op);
      break;
    case OperatorKind::attention_scores:
    case OperatorKind::attention_values:
      split = batched_s(op);
      break;
    case OperatorKind::fused_attention: {
      const KernelEfficiency& efficiency = gpu_.efficiency;
      const bool forward = op.pass == Pass::forward;
      const double share = forward ? efficiency.attention.forward : efficiency.attention.backward;
      split.core_s = flops(op) / (peak_flops(gpu_, op.dtype) * share) +
                     (forward ? efficiency.attention_start_forward_s : efficiency.attention_start_backward_s);
      break;
    }
    case OperatorKind::fused_dropout:
      split.core_s = fused_dropout_s(op);
      break;
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      split = experts_s(op);
      break;
    default:
      split.memory_s = memory_s(op);
  }
  WorkCost cost;
  cost.core_s = split.core_s;
  cost.memory_s = split.memory_s + (is_launched(op.kind) ? gpu_.efficiency.launch_s : 0);
  cost.flops = is_matrix_product(op.kind) ? flops(op) : 0;
  cost.memory_bytes = lowgear::estimator::memory_bytes(op);
  cost.error_s = kOperatorRelativeError * cost.time_s();
  return cost;
}

}  // namespace lowgear::estimator
