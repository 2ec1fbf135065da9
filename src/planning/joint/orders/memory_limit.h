#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::joint {

/// How many activations fit into the memory of each rank: those of so many microbatches of the whole rank. With v
/// stages on a rank, the activations of one stage and microbatch are 1/v of one.
struct MemoryLimit {
  std::optional<int> microbatches = {};  ///< on every rank, at least 1; none: what 1F1B holds on each, min(S - r, M)

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

/// `1f1b`, or a whole number of microbatches. Throws InputError on anything else; on an amount of bytes it says what is
/// missing to count with it.
[[nodiscard]] MemoryLimit parse_memory_limit(std::string_view text);
/// As it is given: `1f1b`, `12`.
[[nodiscard]] std::string to_string(const MemoryLimit& limit);

/// Most stage-microbatches by rank, where each rank runs `chunks` stages.
[[nodiscard]] std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks);

/// The least number of microbatches, the same on every rank, that lets a rank hold `stage_microbatches` with `chunks`
/// stages each.
[[nodiscard]] int least_limit(int stage_microbatches, int chunks);

}  // namespace lowgear::joint
