#include "server/steering/switch_boundary.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

constexpr double kMostIterationsAhead = 1e9;

void check_time(std::string_view what, double time_s) {
  if (time_s >= 0 && std::isfinite(time_s)) return;
  throw InputError(fmt::format("{} of {} s: it must be 0 or more and finite", what, time_s));
}

}  // namespace

std::int64_t switch_boundary(const IterationProgress& progress, double delivery_budget_s) {
  check_time("delivery budget", delivery_budget_s);
  check_time("time since the latest iteration", progress.since_complete_s);
  if (!(progress.iteration_time_s > 0) || !std::isfinite(progress.iteration_time_s)) {
    throw InputError(fmt::format("iteration time of {} s: it must be above 0 and finite", progress.iteration_time_s));
  }
  if (progress.latest_complete < -1) {
    throw InputError(fmt::format("latest complete iteration {}: it must be -1 or more", progress.latest_complete));
  }
  const double begun = std::floor((progress.since_complete_s + delivery_budget_s) / progress.iteration_time_s);
  if (begun > kMostIterationsAhead ||
      progress.latest_complete > std::numeric_limits<std::int64_t>::max() - 2 * std::int64_t{1'000'000'000}) {
    throw InputError(
        fmt::format("iterations of {} s: the plan would switch too far ahead; give a smaller budget than "
                    "{} s",
                    progress.iteration_time_s, delivery_budget_s));
  }
  return progress.latest_complete + 2 + static_cast<std::int64_t>(begun);
}

}  // namespace lowgear::server
