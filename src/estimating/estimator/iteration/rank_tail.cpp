#include "estimating/estimator/iteration/rank_tail.h"

#include <algorithm>
#include <cstdint>

#include "estimating/estimator/iteration/stage_costs.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/sharding_work.h"

namespace lowgear::estimator {

Tail::Tail(const TrainingJob& job, const std::vector<StageEstimate>& stages, const CostSources& sources)
    : job_(job),
      stages_(stages),
      sources_(sources),
      parameters_(rank_parameters(job)),
      replicas_(replica_group(job)),
      expert_replicas_(expert_replica_group(job)) {}

RankTail Tail::of_rank(std::size_t rank) const {
  const bool sharded = job_.zero >= 1;
  const double updated =
      sharded ? parameters_[rank].dense / replicas_.ranks + parameters_[rank].experts / expert_replicas_.ranks
              : parameters_[rank].total();
  const auto whole = std::max<std::int64_t>(1, static_cast<std::int64_t>(updated));
  const Operator update{OperatorKind::optimizer, Pass::forward, {whole, 1, 1, 1}, job_.dtype};
  RankTail tail{0, sources_.operators.cost(update).time_s()};
  if (job_.zero == 3) return tail;  // summed and gathered in the passes
  if (job_.zero < 2) {              // otherwise summed in the passes, as each microbatch has them
    tail.gradients_s = exposed_s(sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                 summed_gradient_bytes(job_), rank, &StageEstimate::backward);
  }
  if (sharded) {
    tail.optimizer_s += exposed_s(CollectiveKind::all_gather, bytes_of(job_.dtype), rank, &StageEstimate::forward);
  }
  return tail;
}

double Tail::exposed_s(CollectiveKind kind, double bytes_each, std::size_t rank, WorkCost StageEstimate::*pass) const {
  const auto collective_s = [&](double parameters, const RankGroup& group) {
    return sources_.collectives.cost(kind, parameters * bytes_each, group).link_s;
  };
  const double time_s =
      collective_s(parameters_[rank].dense, replicas_) + collective_s(parameters_[rank].experts, expert_replicas_);
  if (!job_.overlap.gradients) return time_s;
  double passes_s = 0;
  std::int64_t layers = 0;
  for (std::size_t stage = rank; stage < stages_.size(); stage += parameters_.size()) {
    passes_s += (stages_[stage].*pass).time_s();
    layers += stages_[stage].layers;
  }
  double last_bucket_s = time_s / static_cast<double>(std::max<std::int64_t>(1, layers));
  if (rank == 0) last_bucket_s = std::max(last_bucket_s, collective_s(token_matrix_parameters(job_), replicas_));
  return std::max(last_bucket_s, time_s - hidden_share(job_.gpu) * passes_s);
}

}  // namespace lowgear::estimator
