#include "estimating/estimator/work/sharding_work.h"

#include <array>
#include <cstdint>

namespace lowgear::estimator {

double summed_gradient_bytes(const TrainingJob& job) {
  if (job.stack.reductions) return bytes_of(*job.stack.reductions);
  return job.dtype == DataType::fp16 ? 2 : 4;
}

double gathered_weight_bytes(const TrainingJob& job) {
  return job.dtype == DataType::fp4 ? bytes_of(DataType::bf16) : bytes_of(job.dtype);
}

void add_sharding(BlockBuilder& block, const TrainingJob& job, double parameters, const ReplicaGroups& replicas,
                  bool gathered_again) {
  if (job.zero < 2 || parameters == 0) return;
  const int forward_overlap = job.overlap.gradients ? kWholePass : kNothing;
  const int backward_overlap = job.zero == 3 && !job.stack.gathers_ahead ? kNothing : forward_overlap;
  const std::array<std::int64_t, 4> elements{static_cast<std::int64_t>(parameters), 1, 1, 1};
  if (job.zero == 3) {
    const double bytes = parameters * gathered_weight_bytes(job);
    CollectiveUse gather{CollectiveKind::all_gather, bytes,           replicas.shards,
                         WorkPart::sharded_weights,  forward_overlap, 1};
    block.communicate(&BlockWork::forward, gather);
    gather.overlaps = backward_overlap;
    if (gathered_again) block.communicate(&BlockWork::backward, gather);
    const PassTimes copies{1.0, gathered_again ? 1.0 : 0.0};
    if (job.stack.copies_gathered) block.add(WorkPart::sharded_weights, OperatorKind::permute, elements, copies);
    // Conversion to fp32 on the way: 2.2 ms for 621 million gradients on an H200 (torch._chunk_cat, as FSDP2 does it).
    constexpr double kConvertingPasses = 3.7;
    const bool converts = summed_gradient_bytes(job) > bytes_of(type_of(job, OperatorKind::permute));
    block.backward(WorkPart::sharded_gradients, OperatorKind::permute, elements, converts ? kConvertingPasses : 1);
  }
  CollectiveUse sum{CollectiveKind::reduce_scatter,
                    parameters * summed_gradient_bytes(job),
                    replicas.shards,
                    WorkPart::sharded_gradients,
                    backward_overlap,
                    1};
  block.communicate(&BlockWork::backward, sum);
  sum.kind = CollectiveKind::all_reduce;
  sum.bytes /= replicas.shards.ranks;
  sum.group = replicas.copies;
  block.communicate(&BlockWork::backward, sum);
}

}  // namespace lowgear::estimator
