#pragma once

#include <cstddef>

namespace lowgear::server {

/// How long planning may take, in processor time.
struct PlanningTimes {
  /// After which a task makes room for others, and begins again among those that take long.
  double slice_s = 2;
  /// Of one task, for a job of at most `kActionsPerLimit` actions; larger ones have more in
  /// proportion. What takes longer is answered with an error.
  double limit_s = 120;
};

/// Jobs up to this size have `PlanningTimes::limit_s` itself.
inline constexpr std::size_t kActionsPerLimit = 100'000;

}  // namespace lowgear::server
