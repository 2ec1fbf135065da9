#pragma once

#include <cstdint>
#include <optional>

namespace lowgear::cli {

/// Memory that this process may still take: what the machine has available, or less where its control group is limited.
/// Empty when the system does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory_bytes();

}  // namespace lowgear::cli
