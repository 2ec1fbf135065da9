#include "estimating/estimator/memory/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/core/units.h"
#include "estimating/estimator/memory/activation_memory.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/rank_parameters.h"

namespace lowgear::estimator {
namespace {

/// Shares of PCIe 5.0 that copies of 1 GiB reach on an H200 (PyTorch 2.11): 55.4 of 63 GB/s in one direction, 48.4 in
/// each at once. Taken for all links.
constexpr double kOneWayShare = 0.88;
constexpr double kBothWaysShare = 0.77;
/// Share of the CPUs' memory bandwidth that their update reaches: assumed. PyTorch's fused AdamW moves its 28 bytes a
/// parameter as fast as a copy (111 and 104 GB/s on 16 cores of the same machine).
constexpr double kHostMemoryShare = 0.8;
/// AdamW of a parameter: norm of the gradients (4), reads of gradient, weight and two moments (16), writes of three
/// (12), and the weight in the type of the forward (2).
constexpr double kUpdateBytes = 34;
/// ZeRO 3 shards fp32 weights, which FSDP2 moves before it casts them.
constexpr double kShardBytes = 4;

/// Of the states of so many parameters on this GPU.
BlockTraffic state_traffic(const TrainingJob& job, double shard) {
  BlockTraffic traffic;
  if (!updates_on_host(job)) return traffic;
  if (job.zero >= 2) traffic.backward.to_host = shard * state_bytes(job).gradient;
  if (job.offload == Offload::states) traffic.forward.to_gpu = traffic.backward.to_gpu = shard * kShardBytes;
  return traffic;
}

}  // namespace

bool updates_on_host(const TrainingJob& job) {
  return job.offload == Offload::optimizer || job.offload == Offload::states;
}

BlockTraffic layer_traffic(const TrainingJob& job) {
  if (job.offload == Offload::none) return {};
  const RankParameters layer = layer_parameters(job);
  BlockTraffic traffic = state_traffic(
      job, layer.dense / replica_groups(job).shards.ranks + layer.experts / expert_replica_groups(job).shards.ranks);
  if (job.offload == Offload::activations) {
    traffic.forward.to_host = traffic.backward.to_gpu = activation_bytes_per_layer(job);
  }
  return traffic;
}

BlockTraffic token_matrix_traffic(const TrainingJob& job) {
  if (job.offload == Offload::none) return {};
  return state_traffic(job, token_matrix_parameters(job) / replica_groups(job).shards.ranks);
}

double transfer_s(const HostMemory& host, const HostTraffic& traffic) {
  const bool both = traffic.to_host > 0 && traffic.to_gpu > 0;
  const double bytes = std::max(traffic.to_host, traffic.to_gpu);
  return bytes > 0 ? bytes / ((both ? kBothWaysShare : kOneWayShare) * host.link_bytes_per_s) : 0;
}

double host_update_s(const TrainingJob& job, double parameters) {
  const HostMemory& host = job.cluster.host;
  const double gradients = job.zero < 2 ? parameters * state_bytes(job).gradient : 0;
  const double weights = job.offload == Offload::optimizer ? parameters * activation_bytes(job.dtype) : 0;
  return transfer_s(host, {.to_host = gradients}) + transfer_s(host, {.to_gpu = weights}) +
         parameters * kUpdateBytes / (kHostMemoryShare * host.memory_bytes_per_s);
}

std::string offload_note(const TrainingJob& job) {
  const HostMemory& host = job.cluster.host;
  std::string note = fmt::format("offload of {}: {:.4g} GB/s each way between a GPU and its CPU", name(job.offload),
                                 host.link_bytes_per_s / kGiga);
  if (updates_on_host(job)) {
    note += fmt::format(" and {:.4g} GB/s of the CPUs' memory for each GPU", host.memory_bytes_per_s / kGiga);
  }
  note += fmt::format(" ({}); {:.0f} % of the link", host.source, 100 * kOneWayShare);
  if (updates_on_host(job)) note += fmt::format(" and {:.0f} % of that memory", 100 * kHostMemoryShare);
  return note + " are assumed to be reached";
}

}  // namespace lowgear::estimator
