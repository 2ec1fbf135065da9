/// Agreement with what the artifact of Perseus (SOSP'24) published: its frontier files, row by row, and the intrinsic
/// savings of its table 6, which are printed next to what Lowgear's plan saves on the same profile.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/csv.h"
#include "core/file.h"
#include "measurement.h"
#include "pipelines.h"
#include "planner/pipeline_planner.h"
#include "planner/policies/clock_choice.h"
#include "planner/policies/envpipe_offline.h"
#include "planner/policies/perseus.h"

namespace lowgear::bench {
namespace {

struct PublishedFrontier {
  const GivenProfile* given;
  int microbatches;
  std::string_view file;
  double tolerance;  ///< relative, of energy
};

constexpr std::array kFrontiers{
    PublishedFrontier{&kGpt3OnA100, 12, "frontier/a100_sxm/gpt3-175b_bf16_mb12.csv", 1e-4},
    PublishedFrontier{&kGpt3OnA100, 24, "frontier/a100_sxm/gpt3-175b_bf16_mb24.csv", 1e-4},
    PublishedFrontier{&kGpt3OnA100, 96, "frontier/a100_sxm/gpt3-175b_bf16_mb96.csv", 1e-4},
    PublishedFrontier{&kBloomOnA40, 12, "frontier/a40/bloom_bf16_mb12.csv", 5e-3},
};

void compare_frontier(const PublishedFrontier& published) {
  const Pipeline pipeline(*published.given, published.microbatches);
  const auto rows = PerseusModel(pipeline.problem(), published.given->perseus_unit_s).frontier();
  const std::string path = given_path(published.file);
  const CsvTable table(read_file(path), path);
  const std::size_t common = std::min(rows.size(), table.rows());
  std::size_t other_times = std::max(rows.size(), table.rows()) - common;
  double energy_error = 0;
  for (std::size_t k = 0; k < common; ++k) {
    const double time_s = table.number(k, table.column("time"));
    const double energy_j = table.number(k, table.column("energy"));
    // Times are whole numbers of units, written as sums of doubles.
    if (std::abs(rows[k].time_s - time_s) > 1e-3 * published.given->perseus_unit_s) ++other_times;
    energy_error = std::max(energy_error, std::abs(rows[k].energy_j / energy_j - 1));
  }
  print_target(fmt::format("Perseus' frontier, {} M={}: rows; times that differ; largest energy difference",
                           published.given->name, published.microbatches),
               fmt::format("{} of {}; {}; {:.1e}", rows.size(), table.rows(), other_times, energy_error),
               fmt::format("exact; 0; ≤ {:.0e}", published.tolerance),
               other_times == 0 && energy_error <= published.tolerance);
}

struct PublishedSavings {
  const GivenProfile* given;
  int microbatches;
  double perseus_pct;
  double envpipe_pct;
};

/// SOSP'24 artifact, emulation notebook (table 6).
constexpr std::array kSavings{
    PublishedSavings{&kGpt3OnA100, 12, 15.202, 14.08}, PublishedSavings{&kGpt3OnA100, 24, 14.190, 13.42},
    PublishedSavings{&kGpt3OnA100, 48, 13.617, 13.07}, PublishedSavings{&kGpt3OnA100, 96, 13.319, 12.88},
    PublishedSavings{&kBloomOnA40, 12, 6.974, 6.09},   PublishedSavings{&kBloomOnA40, 24, 4.488, 3.21},
    PublishedSavings{&kBloomOnA40, 48, 3.123, 1.63},   PublishedSavings{&kBloomOnA40, 96, 2.406, 0.80},
};

void compare_savings() {
  fmt::print(
      "| profile | M | Perseus published % | ours % | EnvPipe published % | ours % | Lowgear replayed, against all-max "
      "% "
      "|\n|---|---|---|---|---|---|---|\n");
  double perseus_difference = 0;
  double envpipe_difference = 0;
  for (const PublishedSavings& row : kSavings) {
    const Pipeline pipeline(*row.given, row.microbatches);
    const PlanningProblem problem = pipeline.problem();
    const PolicyPlan perseus = PerseusPolicy(row.given->perseus_unit_s).plan(problem, std::nullopt);
    const double time_s = perseus.own_time_s.value();
    const double perseus_pct = perseus_intrinsic_saving_pct(problem, time_s, perseus.own_energy_j.value());
    const PolicyPlan envpipe = EnvPipeOfflinePolicy(row.given->perseus_unit_s).plan(problem, std::nullopt);
    const double envpipe_pct =
        perseus_intrinsic_saving_pct(problem, time_s, replay_clocks(problem, envpipe.clocks_mhz).energy_j_total);
    PipelinePlanner lowgear(pipeline.schedule(), pipeline.profile(), pipeline.blocking_power_w(), {});
    const Timeline all_max = replay_clocks(problem, max_clocks_mhz(problem));
    const double lowgear_pct = 100 * (1 - lowgear.plan(all_max.time_s).energy_j / all_max.energy_j_total);
    fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.2f} | {:.2f} | {:.2f} |\n", row.given->name, row.microbatches,
               row.perseus_pct, perseus_pct, row.envpipe_pct, envpipe_pct, lowgear_pct);
    perseus_difference = std::max(perseus_difference, std::abs(perseus_pct - row.perseus_pct));
    envpipe_difference = std::max(envpipe_difference, std::abs(envpipe_pct - row.envpipe_pct));
  }
  print_target("Perseus' intrinsic savings (table 6), largest difference",
               fmt::format("{:.4f} points", perseus_difference), "≤ 0.02 points", perseus_difference <= 0.02);
  print_target("EnvPipe's, largest difference", fmt::format("{:.3f} points", envpipe_difference), "≤ 0.2 points",
               envpipe_difference <= 0.2);
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  if (!lowgear::bench::require_given_data("agreement_study")) return 0;
  for (const auto& published : lowgear::bench::kFrontiers) lowgear::bench::compare_frontier(published);
  lowgear::bench::compare_savings();
}
