#include "estimating/estimator/costs/link_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lowgear::estimator {
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
