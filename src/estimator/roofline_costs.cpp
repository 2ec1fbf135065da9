#include "estimator/roofline_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace lowgear {
namespace {

struct Tile {
  double rows = 0;
  double columns = 0;
  double share = 0;  ///< of the best tile's rate
};

/// Tiles of cuBLAS, largest first. Smaller ones read more per multiplication.
constexpr std::array kTiles{Tile{256, 128, 1.0}, Tile{128, 128, 0.95}, Tile{128, 64, 0.8}, Tile{64, 64, 0.6}};

/// FLOPs that tiles of a batched product occupy multiprocessors for, as if each wave were full, over their rate.
double tiled_flops(double batch, double m, double k, double n, int multiprocessors) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const auto occupied = [&](double rows, double columns) {
      const double tiles = batch * std::ceil(m / rows) * std::ceil(n / columns);
      const double waves = std::ceil(tiles / multiprocessors);
      return waves * multiprocessors * rows * columns * k * 2 / tile.share;
    };
    const double flops = std::min(occupied(tile.rows, tile.columns), occupied(tile.columns, tile.rows));
    if (best == 0 || flops < best) best = flops;
  }
  return best;
}

}  // namespace

RooflineCosts::RooflineCosts(GpuModel gpu) : gpu_(std::move(gpu)) {}

double RooflineCosts::matrix_s(const Operator& op) const {
  const double rate = peak_flops(gpu_, op.dtype) * gpu_.efficiency.matmul_peak;
  const auto dim = [&op](int i) { return static_cast<double>(op.dims[i]); };
  const bool forward = op.pass == Pass::forward;
  if (op.kind == OperatorKind::fused_attention) {
    const double share = forward ? gpu_.efficiency.attention_forward : gpu_.efficiency.attention_backward;
    return flops(op) / (peak_flops(gpu_, op.dtype) * share);
  }
  const bool linear = op.kind == OperatorKind::linear;
  const double batch = linear ? 1 : dim(0);
  const double m = linear ? dim(0) : dim(1);
  const double k = linear ? dim(1) : dim(2);
  const double n = linear ? dim(2) : dim(3);
  if (forward) return tiled_flops(batch, m, k, n, gpu_.multiprocessors) / rate;
  return (tiled_flops(batch, m, n, k, gpu_.multiprocessors) + tiled_flops(batch, k, m, n, gpu_.multiprocessors)) / rate;
}

double RooflineCosts::memory_s(const Operator& op) const {
  const double rate = gpu_.memory_bytes_per_s * gpu_.efficiency.memory_peak;
  return (memory_bytes(op) + gpu_.efficiency.memory_half_bytes) / rate;
}

WorkCost RooflineCosts::cost(const Operator& op) const {
  constexpr double kRelativeError = 0.1;
  WorkCost cost;
  cost.memory_bytes = lowgear::memory_bytes(op);
  const double moving_s = memory_s(op);
  cost.memory_s = gpu_.efficiency.launch_s;
  if (is_matrix_product(op.kind)) {
    cost.flops = flops(op);
    const double computing_s = matrix_s(op);
    (computing_s >= moving_s ? cost.core_s : cost.memory_s) += std::max(computing_s, moving_s);
  } else {
    cost.memory_s += moving_s;
  }
  cost.error_s = kRelativeError * cost.time_s();
  return cost;
}

}  // namespace lowgear
