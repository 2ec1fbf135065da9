#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/dataset/token_text.h"

namespace lowgear::dataset {

/// Consecutive samples of a global batch.
struct BatchSlice {
  std::int64_t first = 0;  ///< index within the global batch
  std::int64_t count = 0;
};

/// The place of a microbatch in the training.
struct MicrobatchPlace {
  int data_parallel_size = 1;
  int data_parallel_rank = 0;
  int microbatches = 1;  ///< per step and data-parallel rank
  int microbatch = 0;
};

/// The samples of a microbatch: the global batch is cut into one block per data-parallel rank, in order, and each
/// block into its microbatches. Throws InputError when the global batch cannot be cut into equal parts, and when a
/// rank or microbatch is out of range.
[[nodiscard]] BatchSlice microbatch_slice(std::int64_t global_batch, const MicrobatchPlace& place);

struct BatchSamplerOptions {
  std::int64_t sequence_length = 0;  ///< tokens that the model sees of a sample
  std::int64_t global_batch = 0;     ///< samples per optimizer step, over all data-parallel ranks
  std::uint64_t seed = 0;
};

/// The position of a training in its text.
struct SamplePosition {
  std::int64_t step = 0;     ///< steps done
  std::int64_t samples = 0;  ///< taken by them, over all data-parallel ranks
};

/// The samples of training steps. The text, of one file or several, is cut into windows of `sequence_length`,
/// each with the first token of the next one as the last target; an epoch takes every window once, in a random order of
/// its own. The rest at the end (less than a window) is not used.
///
/// Every sample is a pure function of text, sequence length, seed and its number; a step takes the next `global_batch`
/// numbers. So the number of samples taken is the whole state: training that is resumed, or cut differently over
/// ranks and microbatches, sees the same batches, and with another global batch it continues after the same sample.
class BatchSampler {
 public:
  /// The views of `text` must stay valid. Throws InputError when there are too few tokens for one window and its last
  /// target, or an option is out of range.
  BatchSampler(TokenText text, BatchSamplerOptions options);

  /// Takes the samples of later steps from there on; without it, from step and sample 0. Throws InputError when a part
  /// of the position is negative.
  void go_on_from(const SamplePosition& position);

  [[nodiscard]] const TokenText& text() const { return text_; }
  [[nodiscard]] const BatchSamplerOptions& options() const { return options_; }
  /// Windows of an epoch.
  [[nodiscard]] std::int64_t window_count() const { return windows_; }
  /// Tokens of a sample: `sequence_length` + 1, inputs and targets overlapping.
  [[nodiscard]] std::int64_t sample_tokens() const { return options_.sequence_length + 1; }
  /// Samples that have been taken when `step` steps are done. Throws InputError for a step before the position that
  /// training continued from, and for one whose samples cannot be counted.
  [[nodiscard]] std::int64_t samples_done(std::int64_t step) const;

  /// The window of the sample `index` of a step, in [0, window_count()). It starts at token window x sequence_length.
  [[nodiscard]] std::int64_t window(std::int64_t step, std::int64_t index) const;
  /// Copies the samples of a slice, one after the other: `out` has `slice.count` x `sample_tokens()` elements; inputs
  /// are the first `sequence_length` of each, targets the last; marked tokens are ~id. Throws InputError on a token
  /// outside the vocabulary.
  void read(std::int64_t step, const BatchSlice& slice, std::span<std::int64_t> out) const;

 private:
  TokenText text_;
  BatchSamplerOptions options_;
  SamplePosition position_;
  std::int64_t windows_;
};

/// Lengths of the documents that `inputs` consist of: each ends with the token `end`, the last one at the latest where
/// the inputs do. Tokens may be marked.
[[nodiscard]] std::vector<std::int64_t> document_lengths(std::span<const std::int64_t> inputs, std::int64_t end);

/// A random order of 0 ... size-1 that takes no memory, however large: a Feistel network of eight rounds (Luby and
/// Rackoff 1988) over the smallest even number of bits that holds `size`, walked along its cycle until the value lies
/// within (Black and Rogaway 2002, section 3). Less than four steps on average, as the bits hold fewer than 4 x `size`
/// values.
class Permutation {
 public:
  /// `size` at least 1. Each `seed` gives another order.
  Permutation(std::int64_t size, std::uint64_t seed);

  /// The number at `position`, in [0, size).
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t seed_;
  unsigned half_bits_;
};

}  // namespace lowgear::dataset
