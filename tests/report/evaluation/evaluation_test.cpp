#include "report/evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "base/core/files/file.h"

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

}  // namespace
}  // namespace lowgear::evaluation
