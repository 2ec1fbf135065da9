/// Lowgear's plans against those of Perseus' planner (Lowtime), both replayed on the measured profile: at the time that
/// Lowtime's plan really takes, does Lowgear's, which may take no longer, ever use more energy?
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planner/pipeline_planner.h"
#include "planner/policies/clock_choice.h"
#include "planner/policies/perseus.h"

namespace lowgear::bench {
namespace {

constexpr std::size_t kRows = 200;

struct Comparison {
  Extent saving_pct;
  std::size_t higher = 0;  ///< rows at which Lowgear used more
};

Comparison compare(const Pipeline& pipeline, double unit_s) {
  const PlanningProblem problem = pipeline.problem();
  const PerseusModel lowtime(problem, unit_s);
  PipelinePlanner lowgear(pipeline.schedule(), pipeline.profile(), pipeline.blocking_power_w(), {});
  const std::vector<PerseusModel::Row> rows = lowtime.frontier();
  Comparison comparison;
  for (std::size_t k = 0; k < kRows; ++k) {
    const PerseusModel::Row& row = rows[k * (rows.size() - 1) / (kRows - 1)];
    const Timeline theirs = replay_clocks(problem, lowtime.clocks_mhz(lowtime.solve(row.time_s)));
    // Times rounded down to units can make a plan of Lowtime's faster than it believes, but none faster than T_min.
    const double energy_j = lowgear.plan(std::max(theirs.time_s, lowgear.fastest_s())).energy_j;
    comparison.saving_pct.add(100 * (1 - energy_j / theirs.energy_j_total));
    comparison.higher += energy_j > theirs.energy_j_total ? 1 : 0;
  }
  return comparison;
}

void run() {
  fmt::print(
      "| profile | M | plans compared | Lowgear higher | saved min % | mean % | max % "
      "|\n|---|---|---|---|---|---|---|\n");
  std::size_t higher = 0;
  for (const GivenProfile* given : kGivenProfiles) {
    for (const int microbatches : {12, 24, 96}) {
      const Comparison found = compare(Pipeline(*given, microbatches), given->perseus_unit_s);
      fmt::print("| {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} |\n", given->name, microbatches,
                 found.saving_pct.count(), found.higher, found.saving_pct.min(), found.saving_pct.mean(),
                 found.saving_pct.max());
      higher += found.higher;
    }
  }
  print_target("replayed energy against Lowtime's at its replayed time, of 1200 plans",
               fmt::format("{} higher", higher), "never higher", higher == 0);
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  if (lowgear::bench::require_given_data("lowtime_study")) lowgear::bench::run();
}
