#include "training/dataset/batch_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/probability.h"

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

std::vector<std::int64_t> document_lengths(std::span<const std::int64_t> inputs, std::int64_t end) {
  std::vector<std::int64_t> lengths;
  std::int64_t length = 0;
  for (const std::int64_t token : inputs) {
    ++length;
    if (token_id(token) == end) lengths.push_back(std::exchange(length, 0));
  }
  if (length > 0) lengths.push_back(length);
  return lengths;
}

namespace {

constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed)
    : size_(static_cast<std::uint64_t>(size)), seed_(random_bits(seed)) {
  if (size < 1) throw Error(fmt::format("an order of {} things", size));
  const auto bits = static_cast<unsigned>(std::bit_width(size_ - 1));
  half_bits_ = std::max(1U, (bits + 1) / 2);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    // Round and half share no bits: a half has at most 32.
    const std::uint64_t mixed = random_bits(seed_ ^ random_bits(round << 32U | right));
    const std::uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  if (position < 0 || static_cast<std::uint64_t>(position) >= size_) {
    throw Error(fmt::format("position {} of an order of {} things", position, size_));
  }
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace lowgear::dataset
