#pragma once

#include <optional>
#include <vector>

#include "server/job/job_record.h"

namespace lowgear::server {

/// The last iterations of a plan for training against the baseline, as shares of it.
struct Comparison {
  double slowdown = 0;
  double slowdown_error = 0;
  std::optional<double> saved;
  double saved_error = 0;
};

/// Ranks that could follow plans, and have not followed the one that was due for several iterations; lowest first.
[[nodiscard]] std::vector<int> ranks_not_following(const JobRecord& job);

/// Of the last iterations of the newest plan; where ranks do not follow it, of the last iterations since it was due.
[[nodiscard]] IterationMeans present_means(const JobRecord& job);

/// Only against what was measured: a saving against anything else would be a guess. Nothing is saved where the energy
/// of a GPU is also that of another job.
[[nodiscard]] std::optional<Comparison> comparison_of(const JobRecord& job);

}  // namespace lowgear::server
