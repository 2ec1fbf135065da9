#include "training/trainer/run/training_data.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "training/dataset/token_masking.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/model/norm_and_loss.h"

namespace lowgear::trainer {

dataset::BatchSlice TrainingData::slice_of(int replica, int microbatch) const {
  return dataset::microbatch_slice(text_.sampler().options().global_batch, {.data_parallel_size = config_->parallel.dp,
                                                                            .data_parallel_rank = replica,
                                                                            .microbatches = config_->microbatches,
                                                                            .microbatch = microbatch});
}

std::vector<std::int64_t> TrainingData::documents_of(const at::Tensor& ids) const {
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < ids.size(0); ++row) {
    const std::span inputs(ids.data_ptr<std::int64_t>() + row * ids.size(1), static_cast<std::size_t>(ids.size(1)));
    if (config_->document_end) {
      std::ranges::copy(dataset::document_lengths(inputs, *config_->document_end), std::back_inserter(all));
    } else {
      all.push_back(ids.size(1));
    }
  }
  return all;
}

TrainingData::Samples TrainingData::samples(std::int64_t step, const dataset::BatchSlice& slice) const {
  const dataset::BatchSampler& sampler = text_.sampler();
  const std::int64_t length = config_->sequence_length;
  const at::Tensor tokens = at::empty({slice.count, sampler.sample_tokens()}, at::kLong);
  sampler.read(step, slice, {tokens.data_ptr<std::int64_t>(), static_cast<std::size_t>(tokens.numel())});
  Samples samples;
  for (std::int64_t sample = 0; sample < slice.count; ++sample) {
    samples.keys.push_back(sample_key(config_->seed, sampler.samples_done(step) + slice.first + sample));
  }
  if (config_->mask_token) {
    samples.targets = tokens.narrow(1, 0, length).contiguous();
    samples.ids = at::empty_like(samples.targets);
    const dataset::TokenMasking masking{*config_->mask_token, config_->model.vocabulary};
    const auto row = [length](const at::Tensor& of, std::int64_t sample) {
      return std::span(of.data_ptr<std::int64_t>() + sample * length, static_cast<std::size_t>(length));
    };
    for (std::int64_t sample = 0; sample < slice.count; ++sample) {
      masking.apply(samples.keys[static_cast<std::size_t>(sample)], row(samples.ids, sample),
                    row(samples.targets, sample));
    }
  } else if (has_encoder_and_decoder(config_->model)) {
    // The decoder continues what the encoder reads, and begins with a token of its own.
    const at::Tensor plain = at::where(tokens.lt(0), tokens.bitwise_not(), tokens);
    samples.encoder_ids = plain.narrow(1, 0, length);
    samples.targets = tokens.narrow(1, length, length);
    samples.ids = at::cat(
        {at::full({slice.count, 1}, config_->model.start_token, at::kLong), plain.narrow(1, length, length - 1)}, 1);
  } else {
    samples.ids = tokens.narrow(1, 0, length).contiguous();
    samples.targets = tokens.narrow(1, 1, length);
    samples.ids = at::where(samples.ids.lt(0), samples.ids.bitwise_not(), samples.ids);
  }
  samples.targets = samples.targets.masked_fill(samples.targets.lt(0), kNoTarget);
  return samples;
}

Microbatch TrainingData::microbatch_of(Samples samples, at::Device device) const {
  Microbatch microbatch;
  if (config_->document_end) microbatch.documents = documents_of(samples.ids);
  const std::vector<std::int64_t> shape{config_->rows(), config_->row_tokens()};
  microbatch.ids = samples.ids.view(shape).to(device);
  microbatch.targets = samples.targets.contiguous().view(shape).to(device);
  samples.keys.resize(static_cast<std::size_t>(config_->rows()));
  microbatch.samples = std::move(samples.keys);
  if (samples.encoder_ids.defined()) microbatch.encoder_ids = samples.encoder_ids.to(device);
  return microbatch;
}

steps::Amounts TrainingData::amounts_of(const Samples& samples) const {
  steps::Amounts amounts;
  for (const std::int64_t length : documents_of(samples.ids)) {
    const auto count = static_cast<double>(length);
    amounts.tokens += count;
    amounts.squared_tokens += count * count;
  }
  return amounts;
}

StepBatch TrainingData::batch(std::int64_t step, int replica, at::Device device, Lengths lengths) const {
  StepBatch batch;
  if (config_->mask_token || text_.sampler().text().marks() != dataset::Marks::none) batch.counted_tokens = 0;
  const bool with_others = batch.counted_tokens || lengths == Lengths::of_all_replicas;
  for (int of = 0; of < config_->parallel.dp; ++of) {
    if (of != replica && !with_others) continue;
    for (int i = 0; i < config_->microbatches; ++i) {
      Samples read = samples(step, slice_of(of, i));
      if (batch.counted_tokens) *batch.counted_tokens += read.targets.ne(kNoTarget).sum().item<std::int64_t>();
      if (lengths == Lengths::of_all_replicas) batch.amounts.push_back(amounts_of(read));
      if (of == replica) batch.microbatches.push_back(microbatch_of(std::move(read), device));
    }
  }
  if (config_->model.balance_weight > 0) {
    // The loss counts loss_weight times; the load-balancing loss is a mean over all tokens.
    const double weight = loss_weight(batch.counted_tokens);
    for (Microbatch& microbatch : batch.microbatches) microbatch.balance_share = weight > 0 ? 1 / weight : 0;
  }
  return batch;
}

std::vector<steps::Amounts> TrainingData::amounts(std::int64_t step) const {
  std::vector<steps::Amounts> amounts;
  for (int replica = 0; replica < config_->parallel.dp; ++replica) {
    for (int i = 0; i < config_->microbatches; ++i) amounts.push_back(amounts_of(samples(step, slice_of(replica, i))));
  }
  return amounts;
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
      EngineOptions{.streams = stream_shapes(config_.model, config_.rows(), config_.row_tokens(), config_.parallel.tp),
                    .activation_options = activations_});
  at::Tensor sum = at::zeros({1}, activations_.dtype(at::kDouble));
  std::optional<std::int64_t> counted;
  for (std::int64_t batch = 0; batch < batches_; ++batch) {
    StepBatch read = data_.batch(batch, place_.dp, activations_.device());
    for (Microbatch& microbatch : read.microbatches) {
      microbatch.samples.clear();
      microbatch.balance_share = 0;
    }
    sum += engine.run(read.microbatches, nullptr).to(at::kDouble).view({1});
    if (read.counted_tokens) counted = counted.value_or(0) + *read.counted_tokens;
  }
  // Tensor-parallel ranks have the same one.
  if (place_.tp != 0) sum.zero_();
  ranks_->world->all_reduce(sum);
  const double mean = sum.item<double>() / static_cast<double>(batches_ * config_.microbatches * config_.parallel.dp);
  return mean * data_.loss_weight(counted, batches_);
}

}  // namespace lowgear::trainer
