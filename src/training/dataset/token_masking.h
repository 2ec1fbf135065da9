#pragma once

#include <cstdint>
#include <span>

namespace lowgear::dataset {

/// The masks of a masked language model (Devlin et al. 2019, "BERT"): of the tokens of a sample, 15 % are to be
/// predicted, each chosen by itself; of these, 80 % are replaced by the mask, 10 % by a token of the whole vocabulary.
struct TokenMasking {
  std::int64_t mask_token = 0;
  std::int64_t vocabulary = 0;

  /// The inputs of a sample, of which `targets` are the tokens: those that are not to be predicted become ~token there,
  /// as marked ones are already, which are never chosen. A function of the tokens and `key`, which tells the sample
  /// from others. Both have the same size.
  void apply(std::uint64_t key, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) const;
};

}  // namespace lowgear::dataset
