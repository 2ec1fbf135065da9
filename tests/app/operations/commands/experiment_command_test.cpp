#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations {
namespace {

using cli::lines_of;
using cli::ProgramResult;
using cli::run_lowgear;
using cli::write_text;

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string example(const std::string& name) {
  return (fs::path(LOWGEAR_SOURCE_DIR) / "examples/envpipe" / (name + ".yaml")).string();
}

std::string name_of(const Json& arm) { return arm["name"]; }

const Json& arm_of(const Json& job, const std::string& name) { return *std::ranges::find(job["arms"], name, name_of); }

/// EnvPipe's figures, as they are.
class FigureOfEnvPipe : public testing::TestWithParam<std::string> {};

TEST_P(FigureOfEnvPipe, IsReplayed) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const ProgramResult run = run_lowgear({"runs", "experiment", example(GetParam()), "--out", out, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = parse_json(run.out, "stdout");
  for (const Json& note : json["notes"]) EXPECT_THAT(run.err, HasSubstr(note.get<std::string>()));
  EXPECT_EQ(json["basis"], "replayed");
  EXPECT_EQ(json["profiles"], "estimated");
  EXPECT_EQ(json, parse_json(read_file(out + "/report.json"), "report.json"));
  std::size_t rows = 0;
  for (const Json& job : json["jobs"]) {
    rows += job["arms"].size();
    const Json& baseline = arm_of(job, "baseline");
    EXPECT_EQ(baseline["saving_pct"], 0);
    const double baseline_s = baseline["time_s"];
    const Json& lowgear = arm_of(job, "lowgear");
    EXPECT_LE(lowgear["time_s"].get<double>(), baseline_s * (1 + 1e-9)) << job["name"];
    EXPECT_GT(lowgear["saving_pct"].get<double>(), 0) << job["name"];
    // Of the same order and no longer: EnvPipe cannot be better than the planner's tolerance.
    const Json& same_order = arm_of(job, "lowgear in EnvPipe's order");
    for (const char* const name : {"envelope", "balanced", "greedy"}) {
      const auto arm = std::ranges::find(job["arms"], name, name_of);
      if (arm == job["arms"].end() || (*arm)["time_s"].get<double>() > baseline_s * (1 + 1e-9)) continue;
      EXPECT_LE(same_order["energy_j"].get<double>(), (*arm)["energy_j"].get<double>() * 1.005) << job["name"];
    }
    for (const Json& arm : job["arms"]) {
      const double energy_j = arm["energy_j"];
      EXPECT_NEAR(arm["throughput_per_s"].get<double>() * arm["time_s"].get<double>(), job["sequences"].get<double>(),
                  1e-6);
      EXPECT_NEAR(arm["saving_pct"].get<double>(), 100 * (1 - energy_j / baseline["energy_j"].get<double>()), 1e-6);
    }
  }
  EXPECT_EQ(lines_of(read_file(out + "/results.csv")).size(), 1 + rows);
  EXPECT_THAT(read_file(out + "/report.html"),
              AllOf(HasSubstr("Replayed on estimated profiles"), HasSubstr(", energy, replayed")));
}

INSTANTIATE_TEST_SUITE_P(AllFigures, FigureOfEnvPipe,
                         testing::Values("figure-9a", "figure-9b", "figure-10", "figure-11", "figure-12", "figure-13"));

TEST(ExperimentCommand, NamesWhatItWouldReplay) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const ProgramResult run = run_lowgear({"runs", "experiment", example("figure-9a"), "--dry-run", "--out", out});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("BERT-336M"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(ExperimentCommand, RefusesJobsThatAreNone) {
  const TemporaryFolder folder;
  write_text(folder / "job.yaml", "model: gpt2-xl\ngpu: a100\nbatch: {global: 8, sequence: 512}\nparallel: {pp: 4}\n");
  const std::string arms = "arms: [{name: a, policy: max}, {name: b, policy: lowgear}]\n";
  const auto refusal = [&](const std::string& jobs) {
    const std::string file = write_text(folder / "e.yaml", jobs + arms);
    const ProgramResult run = run_lowgear({"runs", "experiment", file, "--out", (folder / "out").string()});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(lines_of(run.err).size(), 1U) << run.err;
    EXPECT_FALSE(fs::exists(folder / "out"));
    return run.err;
  };
  EXPECT_THAT(refusal("jobs: [{name: one, job: none.yaml}]\n"), HasSubstr("job \"one\""));
  EXPECT_THAT(refusal("jobs: [{name: one, job: job.yaml, settings: [batch.globl=8]}]\n"), HasSubstr("globl"));
}

}  // namespace
}  // namespace lowgear::operations
