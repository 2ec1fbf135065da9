#pragma once

namespace lowgear::schedule {

/// Microbatches of an iteration of one pipeline, as far as plan files go.
inline constexpr int kMaxMicrobatches = 1'000'000;

}  // namespace lowgear::schedule
