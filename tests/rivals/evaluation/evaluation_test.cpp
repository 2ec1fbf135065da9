#include "rivals/evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "base/core/files/file.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::evaluation {

namespace {

namespace fs = std::filesystem;

const Cell& cell_of(const std::vector<Cell>& cells, const std::string& table, const std::string& gpu,
                    const std::string& model, const std::string& column) {
  return *std::ranges::find_if(cells, [&](const Cell& cell) {
    return cell.table == table && cell.gpu == gpu && cell.model == model && cell.column == column;
  });
}

std::string run(double time_s, double energy_j) {
  const std::string time = std::to_string(time_s);
  const std::string energy = std::to_string(energy_j);
  return R"([{"rank":0,"iter_time":[1,1,)" + time + R"(],"iter_energy":[1,1,)" + energy + "]}]";
}

/// A workload of four GPUs with three plans of made-up figures.
Artifact small_artifact() {
  Artifact artifact;
  add_file(artifact, "zeus/A100/zeus_global.csv", "model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000000\n");
  add_file(artifact, "runs/gpt3-xl_A100/2.prof.json", run(120, 800'000));
  add_file(artifact, "runs/gpt3-xl_A100/3.prof.json", run(104, 850'000));
  add_file(artifact, "runs/gpt3-xl_A100/4.prof.json", run(101, 900'000));
  return artifact;
}

TEST(Evaluation, HasEveryPublishedCell) {
  std::map<std::string, int> cells;
  for (const Cell& cell : evaluate({})) {
    ++cells[cell.table];
    EXPECT_EQ(state(cell), CellState::no_input);
    EXPECT_FALSE(cell.missing.empty());
  }
  EXPECT_EQ(cells, (std::map<std::string, int>{{"figure 7", 8}, {"table 3", 40}, {"table 4", 120}, {"table 6", 16}}));
}

TEST(Evaluation, ComputesWhatTheResultsGive) {
  const auto cells = evaluate(small_artifact());
  EXPECT_NEAR(*cell_of(cells, "table 3", "A100", "gpt3-xl", "Perseus saving").from_results_pct, 10, 1e-9);
  EXPECT_NEAR(*cell_of(cells, "table 3", "A100", "gpt3-xl", "Perseus slowdown").from_results_pct, 1, 1e-9);
  // 4 GPUs wait at 83.64 W: until 105 s the plan of 104 s is the slowest that keeps the time.
  const double waiting_w = 4 * 83.64;
  EXPECT_NEAR(*cell_of(cells, "table 4", "A100", "gpt3-xl", "Perseus, straggler 1.05").from_results_pct,
              100 * (1 - (850'000 + waiting_w) / (1'000'000 + 5 * waiting_w)), 1e-6);
  EXPECT_EQ(state(cell_of(cells, "table 3", "A100", "gpt3-xl", "Perseus saving")), CellState::deviates);
  EXPECT_EQ(state(cell_of(cells, "table 3", "A40", "t5-3b", "Perseus saving")), CellState::no_input);
}

TEST(Evaluation, DoesNotGuessWherePlansAreAbsent) {
  Artifact artifact = small_artifact();
  auto& plans = artifact.runs.begin()->second;
  plans.erase(plans.begin() + 1);
  const auto cells = evaluate(artifact);
  EXPECT_EQ(state(cell_of(cells, "table 4", "A100", "gpt3-xl", "Perseus, straggler 1.05")), CellState::no_input);
  EXPECT_NE(state(cell_of(cells, "table 4", "A100", "gpt3-xl", "Perseus, straggler 1.20")), CellState::no_input);
}

TEST(Evaluation, ReproducesEveryPublishedCellThatHasItsInput) {
  const fs::path folder = fs::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus";
  if (!fs::exists(folder)) GTEST_SKIP() << "NOT CHECKED against the published tables: ../shared/data/perseus is absent";
  Artifact artifact;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).generic_string();
    if (entry.is_regular_file() && is_artifact_file(name)) add_file(artifact, name, read_file(entry.path()));
  }
  std::map<std::string, int> reproduced;
  for (const Cell& cell : evaluate(artifact)) {
    EXPECT_NE(state(cell), CellState::deviates)
        << cell.table << ' ' << cell.gpu << ' ' << cell.model << ' ' << cell.column << ' '
        << cell.from_results_pct.value_or(-1) << ' ' << cell.replanned_pct.value_or(-1) << ' ' << cell.published_pct;
    reproduced[cell.table] += static_cast<int>(state(cell) == CellState::reproduced);
  }
  EXPECT_EQ(reproduced, (std::map<std::string, int>{{"figure 7", 4}, {"table 3", 2}, {"table 4", 5}, {"table 6", 8}}));
}

const ExtrinsicCurve::Point& peak_of(const ExtrinsicCurve& curve) {
  return *std::ranges::max_element(curve.points, {}, &ExtrinsicCurve::Point::saving_pct);
}

TEST(Figure8, IsComputedFromTheFrontierByTheFormulaOfTheAuthors) {
  Artifact artifact;
  std::string profile = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 8; ++stage) {
    for (const char* kind : {"forward", "backward"}) {
      profile += std::to_string(stage) + "," + kind + ",1410,0.05,20\n" + std::to_string(stage) + "," + kind +
                 ",1000,0.06,18\n";
    }
  }
  add_file(artifact, "stage_profile/gpt3-175b+a100_sxm_bf16.csv", profile);
  add_file(artifact, "iteration_time_energy/a100_sxm/gpt3-175b_bf16_mb48.csv", "time,energy\n2.2,8000\n2,9000\n");
  const auto curves = extrinsic_curves(artifact);
  ASSERT_EQ(curves.size(), 4U) << "12, 24, 48 and 96 microbatches";
  EXPECT_FALSE(curves[0].from_results);
  const ExtrinsicCurve& curve = curves[2];
  EXPECT_TRUE(curve.from_results);
  EXPECT_EQ(curve.run.microbatches, 48);
  ASSERT_EQ(curve.points.size(), 51U);
  EXPECT_NEAR(curve.points[0].saving_pct, 0, 1e-9) << "no straggler";
  // 32 pipelines of 8 GPUs, 31 of which wait at 83.64 W until 2.4 s: the slower plan and 0.2 s against 0.4 s.
  const double power_w = 8 * 83.64;
  const double all_fast_j = 1.2 * 9000 + 31 * (9000 + 0.4 * power_w);
  const double planned_j = 1.2 * 9000 + 31 * (8000 + 0.2 * power_w);
  EXPECT_NEAR(curve.points[20].factor, 1.2, 1e-12);
  EXPECT_NEAR(curve.points[20].saving_pct, 100 * (1 - planned_j / all_fast_j), 1e-9);
}

TEST(Figure8, HasTheHighestPointsOfThePublishedFrontiers) {
  const std::string profile = "perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv";
  const std::string frontier = "perseus/frontier/a100_sxm/gpt3-175b_bf16_mb24.csv";
  const auto profile_text = simulator::read_shared(profile);
  const auto frontier_text = simulator::read_shared(frontier);
  if (!profile_text || !frontier_text) GTEST_SKIP() << simulator::kNoSharedData;
  Artifact artifact;
  add_file(artifact, profile, *profile_text);
  add_file(artifact, frontier, *frontier_text);
  const auto curves = extrinsic_curves(artifact);
  ASSERT_EQ(curves.size(), 4U);
  EXPECT_TRUE(curves[1].from_results);
  EXPECT_NEAR(peak_of(curves[1]).saving_pct, 15.1, 0.05);
  EXPECT_NEAR(peak_of(curves[1]).factor, 1.14, 0.0101);
  EXPECT_FALSE(curves[2].from_results);
  EXPECT_NEAR(peak_of(curves[2]).saving_pct, 16.3, 0.05);
}

TEST(Figure8, NeedsAStageProfile) {
  Artifact artifact;
  add_file(artifact, "iteration_time_energy/a100_sxm/gpt3-175b_bf16_mb48.csv", "time,energy\n2.2,8000\n2,9000\n");
  EXPECT_TRUE(extrinsic_curves(artifact).empty());
}

TEST(Figure9, HasPlansAndPowerLimits) {
  Artifact artifact;
  add_file(artifact, "zeus/A100/zeus_global.csv", "model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n");
  add_file(artifact, "runs/gpt3-xl_A100/2.prof.json", R"([{"rank":0,"iter_time":[1,1,120],"iter_energy":[1,1,800]}])");
  const auto points = measured_points(artifact);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].method, "Perseus");
  EXPECT_EQ(points[0].number, 2);
  EXPECT_EQ(points[0].figures, (PipelineFigures{120, 800}));
  EXPECT_EQ(points[1].method, "Zeus, one limit");
  EXPECT_EQ(points[1].workload.model, "gpt3-xl");
}

}  // namespace

}  // namespace lowgear::evaluation
