#pragma once

#include <cstdint>
#include <string>

namespace lowgear {

/// CLOCK_MONOTONIC in nanoseconds: the same for all processes of a machine, so that times may be shared between them.
/// Read through the vDSO, without a system call.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;
/// The same in seconds.
[[nodiscard]] double monotonic_s() noexcept;

/// Which machine's clock that is, since when: the kernel's random identifier of this boot. Empty when it gives none.
[[nodiscard]] std::string boot_id();

}  // namespace lowgear
