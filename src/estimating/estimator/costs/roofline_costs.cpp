#include "estimating/estimator/costs/roofline_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "estimating/model/model_config.h"

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

/// How much more a norm's kernels take below 2048 columns, where each row has a fixed part: PyTorch's LayerNorm on an
/// H200 takes 1.35 times as long for 1024 columns as for 2048, backward 1.58 times.
double narrow_norm(const Operator& op) {
  constexpr double kWide = 2048;
  const double fixed = op.pass == Pass::forward ? 0.35 : 0.58;
  return 1 + fixed * std::max(0.0, kWide / dim(op, 2) - 1);
}

}  // namespace

RooflineCosts::RooflineCosts(GpuModel gpu) : gpu_(std::move(gpu)) {}

double RooflineCosts::memory_s(const Operator& op) const {
  const PassShares& shares = gpu_.efficiency.memory[static_cast<std::size_t>(op.kind)];
  const double share = op.pass == Pass::forward ? shares.forward : shares.backward;
  const bool norm = op.kind == OperatorKind::layer_norm || op.kind == OperatorKind::rms_norm;
  return (norm ? narrow_norm(op) : 1) * lowgear::estimator::memory_bytes(op) / (gpu_.memory_bytes_per_s * share);
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

double RooflineCosts::fused_attention_s(const Operator& op) const {
  constexpr double kNarrow = 64;
  constexpr double kWide = 128;
  const AttentionRate& rate = gpu_.efficiency.attention[static_cast<std::size_t>(op.kernel)];
  const double PassShares::*pass = op.pass == Pass::forward ? &PassShares::forward : &PassShares::backward;
  const double width = std::clamp((dim(op, 3) - kNarrow) / (kWide - kNarrow), 0.0, 1.0);
  const double share = std::lerp(rate.narrow.*pass, rate.wide.*pass, width);
  const double cut = 1 + rate.diagonal.*pass / dim(op, 1);
  return rate.start_s.*pass + cut * flops(op) / (peak_flops(gpu_, op.dtype) * share);
}

/// Half of the pairs lie above the diagonal, more outside of a window.
double RooflineCosts::fused_dropout_s(const Operator& op) const {
  const KernelEfficiency& efficiency = gpu_.efficiency;
  const bool forward = op.pass == Pass::forward;
  const double pairs =
      0.5 * dim(op, 0) * dim(op, 1) * dim(op, 2) * dim(op, 3) * model::pairs_within_window(op.dims[3], op.window);
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
    case OperatorKind::fused_attention:
      split.core_s = fused_attention_s(op);
      break;
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
  cost.core_load = core_load(gpu_, op);
  return cost;
}

namespace {

/// Share of a link's rate that NCCL's kernels carry in large messages. Within a node: collectives among four H200s, 353
/// of 450 GB/s in all-reduces and 328 in all-gathers and reduce-scatters (data/h200-sxm, NVLink SHARP off); the ICICLE
/// project's samples of A100 have 225 of 300 GB/s in all-reduces. Between nodes: 23 of the 25 GB/s of an HDR adapter,
/// as nccl-tests shows on DGX A100.
constexpr double kIntraNodeShare = 0.78;
constexpr double kIntraNodeGatherShare = 0.73;
constexpr double kInterNodeShare = 0.92;
/// Starting a collective's kernel and synchronising its ranks, before the first byte moves (the same samples).
constexpr double kStartS = 10e-6;
/// NCCL's protocols, as its tuning states them (src/graph/tuning.cc): latency of a step as a share of that of Simple,
/// by NVLink (0.6, 1.9 and 3.4 us) and by network (2.7, 4.0 and 14 us); bytes carried as a share of Simple's: LL, whose
/// every second word is a flag, is limited to 141 of 351 GB/s on Hopper; LL128 has 120 of 128 bytes, of which 0.92.
struct Protocol {
  double intra_latency;
  double inter_latency;
  double share;
};
constexpr std::array kProtocols{Protocol{0.6 / 3.4, 2.7 / 14, 0.40}, Protocol{1.9 / 3.4, 4.0 / 14, 0.92},
                                Protocol{1, 1, 1}};
/// Half the width of a 90 % interval: what the samples above are off by from these curves.
constexpr double kLinkRelativeError = 0.15;

/// Latencies with the protocol Simple, one after the other, of steps within nodes and between them.
struct Steps {
  double intra_s = 0;
  double inter_s = 0;
};

/// The best protocol for steps and for bytes that pass each link of a rate.
double passing_s(const Steps& steps, double bytes, double bytes_per_s) {
  double best_s = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : kProtocols) {
    best_s = std::min(best_s, protocol.intra_latency * steps.intra_s + protocol.inter_latency * steps.inter_s +
                                  bytes / (protocol.share * bytes_per_s));
  }
  return best_s;
}

}  // namespace

double LinkCosts::ring_bytes_per_s(CollectiveKind kind, const RankGroup& group) const {
  const bool gathers = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  const double intra = cluster_.intra_node.bytes_per_s * (gathers ? kIntraNodeGatherShare : kIntraNodeShare);
  const double inter = cluster_.inter_node.bytes_per_s * kInterNodeShare * group.ranks_per_node;
  if (group.ranks_per_node >= group.ranks) return intra;
  return group.ranks_per_node == 1 ? inter : std::min(intra, inter);
}

double LinkCosts::ring_s(CollectiveKind kind, double steps, double sent_bytes, const RankGroup& group) const {
  const bool one_node = group.ranks_per_node >= group.ranks;
  const double nodes = static_cast<double>(group.ranks) / group.ranks_per_node;
  const Steps latencies = one_node ? Steps{steps * cluster_.intra_node.latency_s, 0}
                                   : Steps{0, steps * nodes / group.ranks * cluster_.inter_node.latency_s};
  return kStartS + passing_s(latencies, sent_bytes, ring_bytes_per_s(kind, group));
}

double LinkCosts::tree_s(double bytes, const RankGroup& group) const {
  const double nodes = static_cast<double>(group.ranks) / std::min(group.ranks_per_node, group.ranks);
  const double depth = std::ceil(std::log2(std::max(nodes, 1.0)));
  const double chain = std::min(group.ranks, group.ranks_per_node) - 1;  // of the ranks of a node
  const Steps latencies{2 * chain * cluster_.intra_node.latency_s, 2 * depth * cluster_.inter_node.latency_s};
  return kStartS + passing_s(latencies, 2 * bytes, ring_bytes_per_s(CollectiveKind::all_reduce, group));
}

double LinkCosts::all_to_all_s(double bytes, const RankGroup& group) const {
  const double share = bytes / group.ranks;
  const int near = std::min(group.ranks, group.ranks_per_node);
  const double intra_s = share * (near - 1) / (cluster_.intra_node.bytes_per_s * kIntraNodeShare);
  const double inter_s = share * (group.ranks - near) / (cluster_.inter_node.bytes_per_s * kInterNodeShare);
  const double latency_s = group.ranks > near ? cluster_.inter_node.latency_s : cluster_.intra_node.latency_s;
  return kStartS + latency_s + std::max(intra_s, inter_s);
}

WorkCost LinkCosts::cost(CollectiveKind kind, double bytes, const RankGroup& group) const {
  WorkCost cost;
  if (group.ranks <= 1 || !(bytes > 0)) return cost;
  const double others = group.ranks - 1;
  const double passed = bytes * others / group.ranks;
  switch (kind) {
    case CollectiveKind::all_reduce:
      cost.link_bytes = 2 * passed;
      cost.link_s = std::min(ring_s(kind, 2 * others, 2 * passed, group), tree_s(bytes, group));
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      cost.link_bytes = passed;
      cost.link_s = ring_s(kind, others, passed, group);
      break;
    case CollectiveKind::all_to_all:
      cost.link_bytes = passed;
      cost.link_s = all_to_all_s(bytes, group);
      break;
    case CollectiveKind::send:
      cost.link_bytes = bytes;
      cost.link_s = ring_s(kind, 1, bytes, group);
      break;
  }
  cost.error_s = kLinkRelativeError * cost.link_s;
  return cost;
}

}  // namespace lowgear::estimator
