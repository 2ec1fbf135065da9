#pragma once

#include <cstdint>

namespace lowgear::server {

/// What is known when a new plan is about to be handed out.
struct IterationProgress {
  std::int64_t latest_complete = -1;  ///< highest iteration that any rank is known to have completed; -1: none
  double since_complete_s = 0;        ///< how long ago it was
  double iteration_time_s = 0;  ///< shortest that an iteration may take: the faster they are, the sooner it is late
};

/// The first iteration that runs with a new plan: the earliest that no rank has begun when `delivery_budget_s`, in
/// which all ranks receive, is over. The iteration after the latest complete one is taken to have begun at once and
/// the others to follow without a gap, so it is never before latest + 2. Throws InputError when a time is negative or
/// not finite, when iterations take no time, when the progress is below -1, or when the boundary is more than 10^9
/// iterations away.
[[nodiscard]] std::int64_t switch_boundary(const IterationProgress& progress, double delivery_budget_s);

}  // namespace lowgear::server
