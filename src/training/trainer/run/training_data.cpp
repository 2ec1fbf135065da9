#include "training/trainer/run/training_data.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "training/launcher/training_schedule.h"
#include "training/trainer/model/norm_and_loss.h"

namespace lowgear::trainer {

std::vector<Microbatch> TrainingData::microbatches(std::int64_t step, int replica, at::Device device) const {
  const dataset::BatchSampler& sampler = text_.sampler();
  const std::int64_t width = sampler.sample_tokens();
  const bool marked = sampler.text().marks() == dataset::Marks::some;
  std::vector<Microbatch> result;
  for (int i = 0; i < config_->microbatches; ++i) {
    const dataset::BatchSlice slice =
        dataset::microbatch_slice(sampler.options().global_batch, {.data_parallel_size = config_->parallel.dp,
                                                                   .data_parallel_rank = replica,
                                                                   .microbatches = config_->microbatches,
                                                                   .microbatch = i});
    const at::Tensor samples = at::empty({slice.count, width}, at::kLong);
    sampler.read(step, slice, {samples.data_ptr<std::int64_t>(), static_cast<std::size_t>(samples.numel())});
    at::Tensor ids = samples.narrow(1, 0, width - 1);
    at::Tensor targets = samples.narrow(1, 1, width - 1);
    if (marked) {
      ids = at::where(ids.lt(0), ids.bitwise_not(), ids);
      targets = targets.masked_fill(targets.lt(0), kNoTarget);
    }
    SampleKeys keys;
    for (std::int64_t sample = 0; sample < slice.count; ++sample) {
      keys.push_back(sample_key(config_->seed, sampler.samples_done(step) + slice.first + sample));
    }
    result.push_back({ids.contiguous().to(device), targets.contiguous().to(device), std::move(keys)});
  }
  return result;
}

std::optional<std::int64_t> TrainingData::counted_tokens(std::int64_t step) const {
  if (text_.sampler().text().marks() == dataset::Marks::none) return std::nullopt;
  return text_.sampler().counted_targets(step);
}

double TrainingData::loss_weight(std::optional<std::int64_t> counted, std::int64_t steps) const {
  if (!counted) return 1;
  if (*counted == 0) return 0;
  return static_cast<double>(config_->tokens_per_step()) * static_cast<double>(steps) / static_cast<double>(*counted);
}

HeldOutLoss::HeldOutLoss(const launcher::TrainConfig& config, launcher::TrainConfig held_out,
                         const launcher::RankPlace& place, const Communicators& ranks,
                         const at::TensorOptions& activations, std::int64_t batches)
    : config_(std::move(held_out)),
      place_(place),
      ranks_(&ranks),
      schedule_(launcher::evaluation_schedule(config, config_.microbatches)),
      data_(config_),
      activations_(activations),
      batches_(batches) {}

double HeldOutLoss::measure(std::map<int, Stage*> stages) {
  PipelineEngine engine(
      schedule_, place_.pp, std::move(stages), *ranks_->pipeline,
      EngineOptions{.activation_shape = {config_.microbatch_size, config_.sequence_length, config_.model.hidden},
                    .activation_options = activations_});
  at::Tensor sum = at::zeros({1}, activations_.dtype(at::kDouble));
  std::optional<std::int64_t> counted;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    std::vector<Microbatch> microbatches = data_.microbatches(batch, place_.dp, activations_.device());
    for (Microbatch& microbatch : microbatches) microbatch.samples.clear();
    sum += engine.run(microbatches, nullptr).to(at::kDouble).view({1});
    if (const auto here = data_.counted_tokens(batch)) counted = counted.value_or(0) + *here;
  }
  // Tensor-parallel ranks have the same one.
  if (place_.tp != 0) sum.zero_();
  ranks_->world->all_reduce(sum);
  const double mean = sum.item<double>() / static_cast<double>(batches_ * config_.microbatches * config_.parallel.dp);
  return mean * data_.loss_weight(counted, batches_);
}

}  // namespace lowgear::trainer
