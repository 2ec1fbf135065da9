#pragma once

#include <cstdint>
#include <optional>

namespace lowgear::workflow {

/// What planning `ranks` x `microbatches` x `chunks` takes, in bytes, rounded up.
[[nodiscard]] double planning_memory_bytes(int ranks, int microbatches, int chunks);

/// Throws InputError with the estimate when that would not fit into `available_bytes` (unknown: not checked).
void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes);

}  // namespace lowgear::workflow
