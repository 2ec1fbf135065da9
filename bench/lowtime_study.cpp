/// Lowgear's plans against those of Perseus' planner (Lowtime): its clocks for points all along its own frontier are
/// replayed, and Lowgear plans for the time that the replay took. Both energies are *replayed*, on the same profile.
///   lowtime_study [ROWS]   at most that many rows of each frontier, evenly spread (200)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/perseus.h"

namespace lowgear::bench {
namespace {

constexpr std::int64_t kDefaultRows = 200;

struct Comparison {
  Extent saving_pct;
  double most_saved_at = 0;  ///< replayed time over T_min where the saving is largest
  int higher = 0;            ///< rows where Lowgear's plan takes more energy
  int later = 0;             ///< rows where it takes more time
  std::int64_t frontier_rows = 0;
};

/// Energies that are sums of the same terms in another order differ by less.
constexpr double kEnergyTolerance = 1e-12;

void compare_at(const Pipeline& pipeline, const planner::PerseusModel& perseus, double row_time_s,
                planner::PipelinePlanner& planner, Comparison& comparison) {
  const simulator::Timeline theirs = replay_clocks(pipeline.problem(), perseus.clocks_mhz(perseus.solve(row_time_s)));
  // T_min is rounded up to whole picoseconds, the replay is not.
  const plan::Plan ours = planner.plan(std::max(theirs.time_s, planner.fastest_s()));
  const double saving_pct = 100 * (theirs.energy_j_total - ours.energy_j) / theirs.energy_j_total;
  if (comparison.saving_pct.count() == 0 || saving_pct > comparison.saving_pct.max()) {
    comparison.most_saved_at = theirs.time_s / planner.fastest_s();
  }
  comparison.saving_pct.add(saving_pct);
  if (ours.energy_j > theirs.energy_j_total * (1 + kEnergyTolerance)) ++comparison.higher;
  if (ours.time_s > theirs.time_s * (1 + kTimeTolerance)) ++comparison.later;
}

/// From its fastest row to that of least energy. (The rows of its files beyond that take more time and more energy.)
Comparison compare(const Pipeline& pipeline, double unit_s, std::int64_t most_rows) {
  const planner::PerseusModel perseus(pipeline.problem(), unit_s);
  planner::PipelinePlanner planner(pipeline.schedule(), pipeline.profile(), pipeline.blocking_power_w(), {});
  const auto units_of = [&](double time_s) { return std::llround(time_s / perseus.unit_s()); };
  const std::int64_t fastest = units_of(perseus.fastest_s());
  const std::int64_t cheapest = units_of(perseus.solve(std::numeric_limits<double>::infinity()).time_s);
  Comparison comparison;
  comparison.frontier_rows = cheapest - fastest + 1;
  const std::int64_t rows = std::min(most_rows, comparison.frontier_rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t units = fastest + (cheapest - fastest) * i / std::max<std::int64_t>(rows - 1, 1);
    // Half a unit beyond, so that the row is the last one before the deadline.
    compare_at(pipeline, perseus, (static_cast<double>(units) + 0.5) * perseus.unit_s(), planner, comparison);
  }
  return comparison;
}

void run(std::int64_t most_rows) {
  fmt::print(
      "| profile | M | rows of its frontier up to least energy | compared | ours higher | ours later | least saving | "
      "mean "
      "| largest (at) |\n|---|---|---|---|---|---|---|---|---|\n");
  int higher = 0;
  int later = 0;
  std::size_t compared = 0;
  for (const GivenProfile* given : kGivenProfiles) {
    for (const int microbatches : {12, 24, 96}) {
      const Comparison found = compare(Pipeline(*given, microbatches), given->perseus_unit_s, most_rows);
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.3f} % | {:.3f} % | {:.3f} % ({:.3f} T_min) |\n", given->name,
                 microbatches, found.frontier_rows, found.saving_pct.count(), found.higher, found.later,
                 found.saving_pct.min(), found.saving_pct.mean(), found.saving_pct.max(), found.most_saved_at);
      higher += found.higher;
      later += found.later;
      compared += found.saving_pct.count();
    }
  }
  print_target(
      "replayed energy of our plans against Lowtime's at the same or shorter replayed time, both profiles, M = 12, 24, "
      "96",
      fmt::format("higher in {} and later in {} of {}", higher, later, compared), "never higher",
      higher == 0 && later == 0);
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  using namespace lowgear::bench;
  const std::int64_t rows = argc > 1 ? std::atoll(argv[1]) : kDefaultRows;
  if (argc > 2 || rows < 1) {
    fmt::print(stderr, "usage: lowtime_study [ROWS]\n");
    return 2;
  }
  if (require_given_data("lowtime_study")) run(rows);
  return 0;
}
