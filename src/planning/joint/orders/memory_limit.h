#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowgear::joint {

/// How many activations fit into the memory of each rank: those of so many microbatches of the whole rank. With v
/// stages on a rank, the activations of one stage and microbatch are 1/v of one.
struct MemoryLimit {
  /// One number for every rank, or one for each; each at least 1. None: what 1F1B holds on each, min(S - r, M).
  std::vector<int> microbatches = {};

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

/// `1f1b`, a whole number of microbatches, or one for each rank with commas between them. Throws InputError on anything
/// else; on an amount of bytes it says what is missing to count with it.
[[nodiscard]] MemoryLimit parse_memory_limit(std::string_view text);
/// As it is given: `1f1b`, `12`, `8,8,6,4`.
[[nodiscard]] std::string to_string(const MemoryLimit& limit);

/// Most stage-microbatches by rank, where each rank runs `chunks` stages. Throws InputError when the limit has another
/// number of ranks.
[[nodiscard]] std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks);

}  // namespace lowgear::joint
