/// How well the published results of Perseus (SOSP'24 artifact) are reproduced: its frontier files, its table 6, and
/// what it reports of EnvPipe.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/envpipe/envpipe_offline.h"
#include "planning/planner/policies/perseus.h"

namespace lowgear::bench {
namespace {

struct PublishedFrontier {
  const GivenProfile* given = nullptr;
  int microbatches = 0;
  const char* file = nullptr;
  double reach = 0;  ///< relative difference of energies
};

constexpr PublishedFrontier kFrontiers[] = {
    {&kGpt3OnA100, 12, "a100_sxm/gpt3-175b_bf16_mb12.csv", 1e-4},
    {&kGpt3OnA100, 24, "a100_sxm/gpt3-175b_bf16_mb24.csv", 1e-4},
    {&kGpt3OnA100, 96, "a100_sxm/gpt3-175b_bf16_mb96.csv", 1e-4},
    {&kBloomOnA40, 12, "a40/bloom_bf16_mb12.csv", 5e-3},
};

CsvTable read_table(const std::string& relative) {
  const std::string path = given_path(relative);
  return {read_file(path), path};
}

void compare_frontier(const PublishedFrontier& published) {
  const CsvTable table = read_table(std::string("frontier/") + published.file);
  const std::size_t time = table.column("time");
  const std::size_t energy = table.column("energy");
  const Pipeline pipeline(*published.given, published.microbatches);
  const auto rows = planner::PerseusModel(pipeline.problem(), published.given->perseus_unit_s).frontier();
  std::size_t same_times = 0;
  double difference = 0;
  for (std::size_t row = 0; row < std::min(rows.size(), table.rows()); ++row) {
    if (std::abs(rows[row].time_s - table.number(row, time)) < 1e-9) ++same_times;
    const double theirs_j = table.number(row, energy);
    difference = std::max(difference, std::abs(rows[row].energy_j - theirs_j) / theirs_j);
  }
  fmt::print("| {} | {} | {} | {} | {:.1e} |\n", published.file, table.rows(), rows.size(), same_times, difference);
  const bool times_are_same = rows.size() == table.rows() && same_times == table.rows();
  print_target(fmt::format("`--policy perseus` on {}: rows and times the same, energy within", published.file),
               fmt::format("{}, {:.1e}", times_are_same ? "the same" : "not the same", difference),
               fmt::format("the same, ≤ {:g}", published.reach), times_are_same && difference <= published.reach);
}

void compare_frontiers() {
  fmt::print(
      "| file | rows | our rows | of equal time (1 ns) | largest relative difference of energy |\n"
      "|---|---|---|---|---|\n");
  for (const PublishedFrontier& published : kFrontiers) compare_frontier(published);
}

/// Intrinsic savings in per cent, computed from the artifact's data by its own formula with more digits than its paper
/// prints.
struct PublishedSaving {
  const GivenProfile* given = nullptr;
  int microbatches = 0;
  double perseus_pct = 0;
  double envpipe_pct = 0;
};

constexpr PublishedSaving kTable6[] = {
    {&kGpt3OnA100, 12, 15.202, 14.08}, {&kGpt3OnA100, 24, 14.190, 13.42}, {&kGpt3OnA100, 48, 13.617, 13.07},
    {&kGpt3OnA100, 96, 13.319, 12.88}, {&kBloomOnA40, 12, 6.974, 6.09},   {&kBloomOnA40, 24, 4.488, 3.21},
    {&kBloomOnA40, 48, 3.123, 1.63},   {&kBloomOnA40, 96, 2.406, 0.80},
};

/// Savings of one pipeline in per cent.
struct Savings {
  double perseus = 0;           ///< by the formula of table 6, at Perseus' own time and energy
  double envpipe = 0;           ///< the same with EnvPipe's replayed energy
  double perseus_replayed = 0;  ///< against all ops at their highest clock, both replayed
  double perseus_slowdown = 0;  ///< the same of time
  double lowgear_replayed = 0;  ///< in the time of all ops at their highest clock
  double proven = 0;            ///< no plan can save more in the time that Lowgear's takes
};

Savings savings_of(const PublishedSaving& published) {
  const Pipeline pipeline(*published.given, published.microbatches);
  const planner::PlanningProblem problem = pipeline.problem();
  const double unit_s = published.given->perseus_unit_s;
  const planner::PolicyPlan perseus = planner::PerseusPolicy(unit_s).plan(problem, std::nullopt);
  const planner::PolicyPlan envpipe = planner::EnvPipeOfflinePolicy(unit_s).plan(problem, std::nullopt);
  planner::PipelinePlanner planner(pipeline.schedule(), pipeline.profile(), pipeline.blocking_power_w(), {});
  const simulator::Timeline max_clocks = replay_clocks(problem, max_clocks_mhz(problem));
  // T_min is rounded up to whole picoseconds, the replay is not.
  const plan::Plan lowgear = planner.plan(std::max(max_clocks.time_s, planner.fastest_s()));
  const simulator::Timeline perseus_replay = replay_clocks(problem, perseus.clocks_mhz);
  const double envpipe_j = replay_clocks(problem, envpipe.clocks_mhz).energy_j_total;
  const auto saved_pct = [&](double energy_j) { return 100 * (1 - energy_j / max_clocks.energy_j_total); };
  return {.perseus = perseus_intrinsic_saving_pct(problem, *perseus.own_time_s, *perseus.own_energy_j),
          .envpipe = perseus_intrinsic_saving_pct(problem, *perseus.own_time_s, envpipe_j),
          .perseus_replayed = saved_pct(perseus_replay.energy_j_total),
          .perseus_slowdown = 100 * (perseus_replay.time_s / max_clocks.time_s - 1),
          .lowgear_replayed = saved_pct(lowgear.energy_j),
          .proven = saved_pct(*lowgear.lower_bound_j)};
}

void compare_savings() {
  fmt::print(
      "\n| profile | M | Perseus, published | ours of Perseus | EnvPipe, published | ours of EnvPipe | replayed: "
      "Perseus "
      "(slower by) | replayed: Lowgear, no slower | proven upper limit in that time "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  double perseus_points = 0;
  double envpipe_points = 0;
  for (const PublishedSaving& published : kTable6) {
    const Savings found = savings_of(published);
    fmt::print("| {} | {} | {:.3f} % | {:.3f} % | {:.2f} % | {:.3f} % | {:.3f} % ({:.3f} %) | {:.3f} % | {:.3f} % |\n",
               published.given->name, published.microbatches, published.perseus_pct, found.perseus,
               published.envpipe_pct, found.envpipe, found.perseus_replayed, found.perseus_slowdown,
               found.lowgear_replayed, found.proven);
    perseus_points = std::max(perseus_points, std::abs(found.perseus - published.perseus_pct));
    envpipe_points = std::max(envpipe_points, std::abs(found.envpipe - published.envpipe_pct));
  }
  print_target("Perseus' table 6 (intrinsic saving, 8 cases), largest difference",
               fmt::format("{:.4f} points", perseus_points), "≤ 0.02 points", perseus_points <= 0.02);
  print_target("EnvPipe by the same formula (8 cases), largest difference",
               fmt::format("{:.4f} points", envpipe_points), "≤ 0.2 points", envpipe_points <= 0.2);
}

/// Real times and energies are 10 and 80 times those of the artifact's profiles.
void compare_envpipe_file() {
  constexpr double kTimeScale = 10;
  constexpr double kEnergyScale = 80;
  const CsvTable table = read_table("envpipe_result.csv");
  fmt::print("\n| EnvPipe in envpipe_result.csv | M | time | ours | energy | ours |\n|---|---|---|---|---|---|\n");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const bool gpt3 = table.text(row, table.column("model")) == "gpt3-175b";
    const GivenProfile& given = gpt3 ? kGpt3OnA100 : kBloomOnA40;
    const auto microbatches = static_cast<int>(table.integer(row, table.column("num_microbatches")));
    const Pipeline pipeline(given, microbatches);
    const planner::PolicyPlan plan =
        planner::EnvPipeOfflinePolicy(given.perseus_unit_s).plan(pipeline.problem(), std::nullopt);
    const simulator::Timeline replayed = replay_clocks(pipeline.problem(), plan.clocks_mhz);
    fmt::print("| {} | {} | {:.3f} s | {:.3f} s | {:.1f} J | {:.1f} J |\n", given.name, microbatches,
               table.number(row, table.column("iteration_time")), kTimeScale * replayed.time_s,
               table.number(row, table.column("energy")), kEnergyScale * replayed.energy_j_total);
  }
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  using namespace lowgear::bench;
  if (!require_given_data("agreement_study")) return 0;
  compare_frontiers();
  compare_savings();
  compare_envpipe_file();
  return 0;
}
