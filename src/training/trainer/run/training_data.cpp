#include "training/trainer/run/training_data.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "training/launcher/training_schedule.h"
#include "training/trainer/model/norm_and_loss.h"

namespace lowgear::trainer {

dataset::BatchSlice TrainingData::slice_of(int replica, int microbatch) const {
  return dataset::microbatch_slice(text_.sampler().options().global_batch, {.data_parallel_size = config_->parallel.dp,
                                                                            .data_parallel_rank = replica,
                                                                            .microbatches = config_->microbatches,
                                                                            .microbatch = microbatch});
}

std::vector<std::int64_t> TrainingData::documents_of(std::span<const std::int64_t> samples) const {
  const auto width = static_cast<std::size_t>(text_.sampler().sample_tokens());
  std::vector<std::int64_t> all;
  for (std::size_t begin = 0; begin < samples.size(); begin += width) {
    const std::span<const std::int64_t> inputs = samples.subspan(begin, width - 1);
    if (config_->document_end) {
      std::ranges::copy(dataset::document_lengths(inputs, *config_->document_end), std::back_inserter(all));
    } else {
      all.push_back(static_cast<std::int64_t>(inputs.size()));
    }
  }
  return all;
}

std::vector<Microbatch> TrainingData::microbatches(std::int64_t step, int replica, at::Device device) const {
  const dataset::BatchSampler& sampler = text_.sampler();
  const std::int64_t width = sampler.sample_tokens();
  const bool marked = sampler.text().marks() == dataset::Marks::some;
  std::vector<Microbatch> result;
  for (int i = 0; i < config_->microbatches; ++i) {
    const dataset::BatchSlice slice = slice_of(replica, i);
    const at::Tensor samples = at::empty({slice.count, width}, at::kLong);
    const std::span<std::int64_t> tokens(samples.data_ptr<std::int64_t>(), static_cast<std::size_t>(samples.numel()));
    sampler.read(step, slice, tokens);
    at::Tensor ids = samples.narrow(1, 0, width - 1);
    at::Tensor targets = samples.narrow(1, 1, width - 1);
    if (marked) {
      ids = at::where(ids.lt(0), ids.bitwise_not(), ids);
      targets = targets.masked_fill(targets.lt(0), kNoTarget);
    }
    PassSamples known;
    if (config_->document_end) known.documents = documents_of(tokens);
    for (std::int64_t row = 0; row < config_->rows(); ++row) {
      known.keys.push_back(sample_key(config_->seed, sampler.samples_done(step) + slice.first + row));
    }
    const std::vector<std::int64_t> shape{config_->rows(), config_->row_tokens()};
    result.push_back(
        {ids.contiguous().view(shape).to(device), targets.contiguous().view(shape).to(device), std::move(known)});
  }
  return result;
}

std::vector<steps::Amounts> TrainingData::amounts(std::int64_t step) const {
  const dataset::BatchSampler& sampler = text_.sampler();
  std::vector<steps::Amounts> amounts;
  for (int replica = 0; replica < config_->parallel.dp; ++replica) {
    for (int i = 0; i < config_->microbatches; ++i) {
      const dataset::BatchSlice slice = slice_of(replica, i);
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(slice.count * sampler.sample_tokens()));
      sampler.read(step, slice, tokens);
      steps::Amounts& of_microbatch = amounts.emplace_back();
      for (const std::int64_t length : documents_of(tokens)) {
        const auto count = static_cast<double>(length);
        of_microbatch.tokens += count;
        of_microbatch.squared_tokens += count * count;
      }
    }
  }
  return amounts;
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
  PipelineEngine engine(schedule_, place_.pp, std::move(stages), *ranks_->pipeline,
                        EngineOptions{.activation_shape = {config_.rows(), config_.row_tokens(), config_.model.hidden},
                                      .activation_options = activations_});
  at::Tensor sum = at::zeros({1}, activations_.dtype(at::kDouble));
  std::optional<std::int64_t> counted;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    std::vector<Microbatch> microbatches = data_.microbatches(batch, place_.dp, activations_.device());
    for (Microbatch& microbatch : microbatches) microbatch.samples.keys.clear();
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
