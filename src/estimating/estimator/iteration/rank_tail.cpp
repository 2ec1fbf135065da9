#include "estimating/estimator/iteration/rank_tail.h"

#include <algorithm>
#include <cstdint>

#include "estimating/estimator/iteration/stage_costs.h"
#include "estimating/estimator/memory/offload.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/sharding_work.h"

namespace lowgear::estimator {

Tail::Tail(const TrainingJob& job, const std::vector<StageEstimate>& stages, const CostSources& sources)
    : job_(job),
      stages_(stages),
      sources_(sources),
      parameters_(rank_parameters(job)),
      replicas_(replica_groups(job)),
      expert_replicas_(expert_replica_groups(job)) {}

RankTail Tail::of_rank(std::size_t rank) const {
  const double updated =
      parameters_[rank].dense / replicas_.shards.ranks + parameters_[rank].experts / expert_replicas_.shards.ranks;
  const auto whole = std::max<std::int64_t>(1, static_cast<std::int64_t>(updated));
  const Operator update{OperatorKind::optimizer, Pass::forward, {whole, 1, 1, 1}, job_.dtype};
  RankTail tail;
  if (updates_on_host(job_)) tail.update_wait_s = host_update_s(job_, updated);
  tail.optimizer_s = updates_on_host(job_) ? tail.update_wait_s : sources_.operators.cost(update).time_s();
  if (job_.zero == 3) return tail;  // summed and gathered in the passes
  // With ZeRO 2 summed in the passes, as each microbatch has them.
  if (job_.zero < 2) tail.gradients_s = exposed_s(&Tail::sums_s, rank, &StageEstimate::backward);
  if (job_.zero >= 1) tail.optimizer_s += exposed_s(&Tail::gather_s, rank, &StageEstimate::forward);
  return tail;
}

double Tail::sums_s(double parameters, const ReplicaGroups& replicas) const {
  const double bytes = parameters * summed_gradient_bytes(job_);
  return sources_.collectives.cost(CollectiveKind::reduce_scatter, bytes, replicas.shards).link_s +
         sources_.collectives.cost(CollectiveKind::all_reduce, bytes / replicas.shards.ranks, replicas.copies).link_s;
}

double Tail::gather_s(double parameters, const ReplicaGroups& replicas) const {
  const double bytes = parameters * gathered_weight_bytes(job_);
  return sources_.collectives.cost(CollectiveKind::all_gather, bytes, replicas.shards).link_s;
}

double Tail::exposed_s(ReplicaTime replica_time, std::size_t rank, WorkCost StageEstimate::*pass) const {
  const double time_s = (this->*replica_time)(parameters_[rank].dense, replicas_) +
                        (this->*replica_time)(parameters_[rank].experts, expert_replicas_);
  if (!job_.overlap.gradients) return time_s;
  double passes_s = 0;
  std::int64_t layers = 0;
  for (std::size_t stage = rank; stage < stages_.size(); stage += parameters_.size()) {
    passes_s += (stages_[stage].*pass).time_s();
    layers += stages_[stage].layers;
  }
  double last_bucket_s = time_s / static_cast<double>(std::max<std::int64_t>(1, layers));
  if (rank == 0)
    last_bucket_s = std::max(last_bucket_s, (this->*replica_time)(token_matrix_parameters(job_), replicas_));
  return std::max(last_bucket_s, time_s - hidden_share(job_.gpu) * passes_s);
}

}  // namespace lowgear::estimator
