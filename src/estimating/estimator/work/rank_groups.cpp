#include "estimating/estimator/work/rank_groups.h"

#include <algorithm>
#include <cstdint>

namespace lowgear::estimator {
namespace {

/// Ranks whose numbers are `stride` apart.
RankGroup strided_group(const TrainingJob& job, int ranks, int stride) {
  return {ranks, std::clamp(job.cluster.gpus_per_node / stride, 1, ranks)};
}

/// `ep` ranks of the dp times cp have different weights. Shards of one copy are next to each other.
ReplicaGroups grouped_replicas(const TrainingJob& job, int ep) {
  const int replicas = job.parallel.dp * job.parallel.cp / ep;
  const int sharding = job.shard_size > 0 ? job.shard_size / ep : replicas;
  const int shards = job.zero == 0 ? 1 : sharding;
  const int stride = job.parallel.tp * ep;
  return {strided_group(job, shards, stride), strided_group(job, replicas / shards, stride * shards)};
}

}  // namespace

RankGroup tensor_group(const TrainingJob& job) { return strided_group(job, job.parallel.tp, 1); }

RankGroup context_group(const TrainingJob& job) { return strided_group(job, job.parallel.cp, job.parallel.tp); }

RankGroup expert_group(const TrainingJob& job) { return strided_group(job, job.parallel.ep, job.parallel.tp); }

ReplicaGroups replica_groups(const TrainingJob& job) { return grouped_replicas(job, 1); }

ReplicaGroups expert_replica_groups(const TrainingJob& job) { return grouped_replicas(job, job.parallel.ep); }

RankGroup neighbour_group(const TrainingJob& job, int stage) {
  const std::int64_t per_stage = std::int64_t{job.parallel.tp} * job.parallel.cp * job.parallel.dp;
  const std::int64_t from = stage % job.parallel.pp * per_stage;
  const std::int64_t to = (stage + 1) % job.parallel.pp * per_stage;
  const bool same_node = from / job.cluster.gpus_per_node == to / job.cluster.gpus_per_node;
  return {2, same_node ? 2 : 1};
}

}  // namespace lowgear::estimator
