#include "training/dataset/batch_sampler.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/random.h"
#include "training/dataset/permutation.h"

namespace lowgear::dataset {
namespace {

/// Far beyond any training; keeps sizes of buffers and numbers of samples within 64 bits.
constexpr std::int64_t kMaxSequenceLength = std::int64_t{1} << 31;
constexpr std::int64_t kMaxGlobalBatch = std::int64_t{1} << 31;

void require_range(std::string_view what, std::int64_t value, std::int64_t high) {
  if (value >= 1 && value <= high) return;
  throw InputError(fmt::format("{} is {}; give 1 to {}", what, value, high));
}

std::int64_t count_windows(const TokenText& text, const BatchSamplerOptions& options) {
  require_range("the sequence length", options.sequence_length, kMaxSequenceLength);
  require_range("the global batch", options.global_batch, kMaxGlobalBatch);
  if (text.token_count() <= options.sequence_length) {
    throw_input_error({text.source(), 0, 0},
                      fmt::format("{} tokens are too few for a sequence of {} tokens and its last target",
                                  text.token_count(), options.sequence_length),
                      "use shorter sequences or a longer text");
  }
  return (text.token_count() - 1) / options.sequence_length;
}

}  // namespace

BatchSlice microbatch_slice(std::int64_t global_batch, const MicrobatchPlace& place) {
  require_range("the number of data-parallel ranks", place.data_parallel_size, kMaxGlobalBatch);
  require_range("the number of microbatches", place.microbatches, kMaxGlobalBatch);
  const std::int64_t parts = std::int64_t{place.data_parallel_size} * place.microbatches;
  if (global_batch < 1 || global_batch % parts != 0) {
    throw InputError(
        fmt::format("a global batch of {} samples cannot be divided into {} microbatches for each of {} data-parallel "
                    "ranks; make it a multiple of {}",
                    global_batch, place.microbatches, place.data_parallel_size, parts));
  }
  if (place.data_parallel_rank < 0 || place.data_parallel_rank >= place.data_parallel_size) {
    throw InputError(
        fmt::format("there is no data-parallel rank {} of {}", place.data_parallel_rank, place.data_parallel_size));
  }
  if (place.microbatch < 0 || place.microbatch >= place.microbatches) {
    throw InputError(fmt::format("there is no microbatch {} of {}", place.microbatch, place.microbatches));
  }
  const std::int64_t count = global_batch / parts;
  const std::int64_t part = std::int64_t{place.data_parallel_rank} * place.microbatches + place.microbatch;
  return {.first = part * count, .count = count};
}

BatchSampler::BatchSampler(TokenText text, BatchSamplerOptions options)
    : text_(std::move(text)), options_(options), windows_(count_windows(text_, options)) {}

void BatchSampler::go_on_from(const SamplePosition& position) {
  if (position.step < 0 || position.samples < 0) {
    throw InputError(
        fmt::format("no training can continue from step {} and sample {}", position.step, position.samples));
  }
  position_ = position;
}

std::int64_t BatchSampler::samples_done(std::int64_t step) const {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() - position_.samples;
  if (step < position_.step || step - position_.step > most / options_.global_batch - 1) {
    throw InputError(fmt::format("there is no training step {}", step));
  }
  return position_.samples + (step - position_.step) * options_.global_batch;
}

std::int64_t BatchSampler::epochs_done(std::int64_t step) const { return samples_done(step) / windows_; }

std::int64_t BatchSampler::window(std::int64_t step, std::int64_t index) const {
  if (index < 0 || index >= options_.global_batch) {
    throw Error(fmt::format("sample {} of a global batch of {}", index, options_.global_batch));
  }
  const std::int64_t sample = samples_done(step) + index;
  const std::int64_t epoch = sample / windows_;
  const Permutation order(windows_, options_.seed ^ random_bits(static_cast<std::uint64_t>(epoch)));
  return order(sample % windows_);
}

void BatchSampler::read(std::int64_t step, const BatchSlice& slice, std::span<std::int64_t> out) const {
  const auto tokens = static_cast<std::size_t>(sample_tokens());
  if (slice.count < 0 || slice.count > options_.global_batch ||
      out.size() != static_cast<std::size_t>(slice.count) * tokens) {
    throw Error(fmt::format("{} elements for {} samples of {} tokens", out.size(), slice.count, tokens));
  }
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const std::int64_t first = window(step, slice.first + i) * options_.sequence_length;
    text_.read(first, out.subspan(static_cast<std::size_t>(i) * tokens, tokens));
  }
}

}  // namespace lowgear::dataset
