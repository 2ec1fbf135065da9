#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lowgear {

/// Memory that this process may still take: what the machine has available, or less where its control group is limited.
/// Empty when the system does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory_bytes();

/// What planning `ranks` x `microbatches` x `chunks` takes, rounded up.
[[nodiscard]] double planning_memory_bytes(int ranks, int microbatches, int chunks);

/// Throws InputError with the estimate when that would not fit into `available_bytes` (unknown: not checked).
void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes);

}  // namespace lowgear
