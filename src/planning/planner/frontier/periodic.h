#pragma once

#include <functional>
#include <optional>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/instance.h"

namespace lowgear::planner {

/// The instance of a pipeline with the given number of microbatches; all else the same.
using InstanceOfMicrobatches = std::function<ProblemInstance(int microbatches)>;

struct PeriodicFrontier {
  Frontier frontier;
  /// The frontier was carried on from this many microbatches and one more, and found right for two more.
  int solved_microbatches = 0;
};

/// The exact frontier of `microbatches` microbatches, carried on from a few. In the steady state of a pipeline each
/// further microbatch repeats the last one, so that every vertex moves on by the same time and energy. From how many
/// microbatches on that holds depends on the pipeline: two to four times its stages when they are alike, more when they
/// differ. So it is checked, never assumed: frontiers of M0 and M0 + 1 are carried on to M0 + 2 and compared, as whole
/// numbers and vertex for vertex, with the solved frontier of M0 + 2; where they differ, M0 grows by half. None when M0
/// would reach `microbatches`. That this period continues was observed on every pipeline, but is not a theorem: plans
/// made from such a frontier have to be bounded by a solution of the full number. `first` is the first M0, at least 1.
[[nodiscard]] std::optional<PeriodicFrontier> solve_periodic(const InstanceOfMicrobatches& instance_of,
                                                             int microbatches, int first);

}  // namespace lowgear::planner
