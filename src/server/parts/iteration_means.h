#pragma once

#include <optional>
#include <span>

#include "server/parts/iteration_log.h"

namespace lowgear::server {

/// Time and energy of one iteration as means over several, with standard errors. Iterations that stalled are left out.
struct IterationMeans {
  int iterations = 0;  ///< that they are means of; 0: there are none, and no means
  int stalled = 0;     ///< left out
  double time_s = 0;
  double time_error_s = 0;         ///< from the scatter of iterations; 0 of a single one
  double time_spread_s = 0;        ///< standard deviation of single iterations
  std::optional<double> energy_j;  ///< empty unless each of them has it
  double energy_error_j = 0;       ///< from the scatter, or from the errors of the meters where that is more
};

/// Means of these iterations. An iteration that takes more than twice their median has stalled: clocks slow down every
/// iteration, while storage, network and a busy machine hold up single ones, by times that are no error of a mean but
/// would decide it. Where more than a quarter do, it is no exception, and all of them count.
[[nodiscard]] IterationMeans means_of(std::span<const JobIteration> iterations);

}  // namespace lowgear::server
