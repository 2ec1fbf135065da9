#pragma once

namespace lowgear::server {

/// Largest number of a version, a rank or a clock that the stored state of a job may hold.
inline constexpr int kMaxStoredNumber = 1 << 30;

}  // namespace lowgear::server
