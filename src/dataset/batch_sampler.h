#pragma once

#include <cstdint>
#include <span>

#include "dataset/token_text.h"

namespace lowgear {

/// Some samples of a global batch that follow each other.
struct BatchSlice {
  std::int64_t first = 0;  ///< index within the global batch
  std::int64_t count = 0;
};

/// Which part of the training one micro-batch is.
struct MicrobatchPlace {
  int data_parallel_size = 1;
  int data_parallel_rank = 0;
  int microbatches = 1;  ///< per step and data-parallel rank
  int microbatch = 0;
};

/// The samples of a micro-batch: the global batch is cut into one block per data-parallel rank, in order, and each
/// block into its micro-batches. Throws InputError when the global batch cannot be cut into equal parts, and when a
/// rank or micro-batch is not among those there are.
[[nodiscard]] BatchSlice microbatch_slice(std::int64_t global_batch, const MicrobatchPlace& place);

struct BatchSamplerOptions {
  std::int64_t sequence_length = 0;  ///< tokens that the model sees of a sample
  std::int64_t global_batch = 0;     ///< samples per optimizer step, over all data-parallel ranks
  std::uint64_t seed = 0;
};

/// Which samples a training step takes. The text, of one file or several, is cut into windows of `sequence_length`,
/// each with the first token of the next one as the last target; an epoch takes every window once, in a random order of
/// its own. What is left over at the end (less than a window) is not used.
///
/// Sample number `step * global_batch + index` is a pure function of text, options and number. So the step is all the
/// state there is: training that is resumed, or cut differently over ranks and micro-batches, sees the same batches.
class BatchSampler {
 public:
  /// What `text` views must stay valid. Throws InputError when there are too few tokens for one window and its last
  /// target, or an option is below 1 or absurd.
  BatchSampler(TokenText text, BatchSamplerOptions options);

  [[nodiscard]] const BatchSamplerOptions& options() const { return options_; }
  /// Windows of an epoch.
  [[nodiscard]] std::int64_t window_count() const { return windows_; }
  /// Tokens of a sample: `sequence_length` + 1, inputs and targets overlapping.
  [[nodiscard]] std::int64_t sample_tokens() const { return options_.sequence_length + 1; }
  /// Epochs that have been seen whole when `step` steps are done.
  [[nodiscard]] std::int64_t epochs_done(std::int64_t step) const;

  /// The window of the sample `index` of a step, in [0, window_count()). It starts at token window x sequence_length.
  [[nodiscard]] std::int64_t window(std::int64_t step, std::int64_t index) const;
  /// Copies the samples of a slice, one after the other: `out` has `slice.count` x `sample_tokens()` elements; inputs
  /// are the first `sequence_length` of each, targets the last. Throws InputError on a token outside the vocabulary.
  void read(std::int64_t step, const BatchSlice& slice, std::span<std::int64_t> out) const;

 private:
  [[nodiscard]] std::int64_t first_sample(std::int64_t step) const;

  TokenText text_;
  BatchSamplerOptions options_;
  std::int64_t windows_;
};

}  // namespace lowgear
