#pragma once

#include <cstdint>

namespace lowgear {

/// CLOCK_MONOTONIC in nanoseconds: the same for all processes of a machine, so that times may be shared between them.
/// Read through the vDSO, without a system call.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;
/// The same in seconds.
[[nodiscard]] double monotonic_s() noexcept;

}  // namespace lowgear
