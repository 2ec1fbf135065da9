#include "training/dataset/token_masking.h"

#include <cstddef>

#include "base/core/probability.h"

namespace lowgear::dataset {

void TokenMasking::apply(std::uint64_t key, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) const {
  // Shares of 1000 among numbers below it: of all tokens those that are chosen; of these, masks and other tokens.
  constexpr std::uint64_t kWhole = 1000;
  constexpr std::uint64_t kChosen = 150;
  constexpr std::uint64_t kMasked = 800;
  constexpr std::uint64_t kReplaced = 100;
  const std::uint64_t sample = random_bits(key ^ 0x6D61736BU);  // other bits than those of dropout
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const bool marked = targets[i] < 0;
    inputs[i] = marked ? ~targets[i] : targets[i];
    const std::uint64_t choice = random_bits(sample ^ i);
    if (marked || choice % kWhole >= kChosen) {
      targets[i] = ~inputs[i];
      continue;
    }
    const std::uint64_t kind = random_bits(choice);
    const std::uint64_t part = kind % kWhole;
    if (part < kMasked) {
      inputs[i] = mask_token;
    } else if (part < kMasked + kReplaced) {
      inputs[i] = static_cast<std::int64_t>(random_bits(kind) % static_cast<std::uint64_t>(vocabulary));
    }
  }
}

}  // namespace lowgear::dataset
