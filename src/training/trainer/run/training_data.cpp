#include "training/trainer/run/training_data.h"

#include <span>

namespace lowgear::trainer {

std::vector<Microbatch> TrainingData::microbatches(std::int64_t step, int replica, at::Device device) const {
  const dataset::BatchSampler& sampler = text_.sampler();
  const std::int64_t width = sampler.sample_tokens();
  std::vector<Microbatch> result;
  for (int i = 0; i < config_->microbatches; ++i) {
    const dataset::BatchSlice slice =
        dataset::microbatch_slice(sampler.options().global_batch, {.data_parallel_size = config_->parallel.dp,
                                                                   .data_parallel_rank = replica,
                                                                   .microbatches = config_->microbatches,
                                                                   .microbatch = i});
    const at::Tensor samples = at::empty({slice.count, width}, at::kLong);
    sampler.read(step, slice, {samples.data_ptr<std::int64_t>(), static_cast<std::size_t>(samples.numel())});
    result.push_back({samples.narrow(1, 0, width - 1).contiguous().to(device),
                      samples.narrow(1, 1, width - 1).contiguous().to(device)});
  }
  return result;
}

}  // namespace lowgear::trainer
