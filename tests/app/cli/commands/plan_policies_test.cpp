#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>

#include "app/cli/commands/plan_command_fixture.h"
#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlanPolicies : public PlanCommand {};

TEST_F(PlanPolicies, ADeadlineThatAPolicyMissesIsStatedAsMissed) {
  write_text(folder_ / "profile.csv", small_profile(3));
  const std::string out = (folder_ / "missed").string();
  const auto made = [&](const std::string& policy, const std::string& deadline) {
    return run_lowgear({"plan", "--profile", (folder_ / "profile.csv").string(), "--microbatches", "6",
                        "--blocking-power", "70", "--policy", policy, "--slowdown", deadline, "--perseus-unit", "0.01",
                        "--out", out, "--json"});
  };
  // It rounds times down to its unit, so that the replay of its plan takes longer.
  const ProgramResult missed = made("perseus", "0");
  ASSERT_EQ(missed.exit_code, 0) << missed.err;
  const Json json = parse_json(missed.out, "stdout");
  EXPECT_EQ(json["asked_deadline_kept"], false);
  EXPECT_LT(json["asked_deadline_s"], json["plans"][0]["time_s"]);
  const ProgramResult verified = run_lowgear({"verify", out});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("that was asked for is MISSED"));
  EXPECT_EQ(parse_json(run_lowgear({"verify", out, "--json"}).out, "stdout")["missed_deadline_s"],
            json["asked_deadline_s"]);

  const ProgramResult kept = made("lowgear", "5");
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(parse_json(kept.out, "stdout")["asked_deadline_kept"], true);
  EXPECT_THAT(run_lowgear({"verify", out}).out, HasSubstr("deadlines kept"));
}

TEST_F(PlanPolicies, PerseusFilesReplayToTheSameFiguresSlowestFirst) {
  const Json json = planned({"--plans", "3", "--perseus-format"});
  for (int number = 0; number < 3; ++number) {
    const std::string file = "freqs_pipeline_0000" + std::to_string(2 - number) + ".py";
    const ProgramResult replayed = run_lowgear(
        pipeline_command("verify", profile_, 3, 6, {"--replay", (folder_ / "out" / file).string(), "--json"}));
    ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
    const Json figures = parse_json(replayed.out, "stdout");
    EXPECT_DOUBLE_EQ(figures["time_s"], json["plans"][number]["time_s"]);
    EXPECT_NEAR(figures["energy_j"], json["plans"][number]["energy_j"].get<double>(), 1e-6);
  }
}

TEST_F(PlanPolicies, PerseusFilesAreWrittenForEitherReader) {
  const std::string first = "freqs_pipeline_00000.py";
  ASSERT_EQ(plan({"--plans", "3", "--perseus-format", "artifact"}).exit_code, 0);
  const std::string artifact = text(first);
  EXPECT_THAT(artifact, HasSubstr("# Iteration 0: cost change 0 \n"));
  EXPECT_THAT(text("freqs_pipeline_00002.py"), HasSubstr("# Iteration 2: refined cost "));
  ASSERT_EQ(plan({"--plans", "3", "--perseus-format", "zeus"}).exit_code, 0);
  EXPECT_THAT(text(first), HasSubstr("[('forward', "));
  const formats::PerseusPlan tuples = formats::read_perseus_plan(text(first), first);
  const formats::PerseusPlan clocks = formats::read_perseus_plan(artifact, first);
  ASSERT_EQ(tuples.stages.size(), clocks.stages.size());
  EXPECT_EQ(tuples.stages[0].front().kind, OpKind::forward);
  EXPECT_EQ(tuples.stages[0].back().kind, OpKind::backward);
  for (std::size_t stage = 0; stage < clocks.stages.size(); ++stage) {
    for (std::size_t i = 0; i < clocks.stages[stage].size(); ++i) {
      EXPECT_EQ(tuples.stages[stage][i].clock_mhz, clocks.stages[stage][i].clock_mhz);
    }
  }
  EXPECT_THAT(refusal_of(plan({"--perseus-format", "lowtime"})), HasSubstr("artifact or zeus"));
}

TEST_F(PlanPolicies, WritesTheStepsOfEnvPipesReconfiguration) {
  const std::filesystem::path steps = folder_ / "steps.txt";
  ASSERT_EQ(plan({"--policy", "envpipe", "--envpipe-steps", steps.string()}).exit_code, 0);
  const std::string written = read_file(steps);
  EXPECT_THAT(written, testing::StartsWith("step 0\nStage 0 |"));
  EXPECT_THAT(written, HasSubstr("\nstep 10\n"));
  EXPECT_EQ(written.find("step 0\n"), written.rfind("step 0\n")) << "the comparison of policies repeats them";
}

TEST_F(PlanPolicies, EnvPipePlansForAGpuThatItDoesNotList) {
  const std::string config = (folder_ / "ds.json").string();
  write_file_atomically(config, R"({"train_batch_size": 4, "envpipe": {"type": "envelope", "scheduling": "ours",
                     "reconfig": "balanced", "gpu": "newarch"}})");
  EXPECT_THAT(refusal_of(plan({"--policy", "envpipe", "--envpipe-config", config})),
              AllOf(HasSubstr("newarch"), HasSubstr("--envpipe-start-clock and --envpipe-lowest-clock")));
  const ProgramResult planned =
      plan({"--policy", "envpipe", "--envpipe-config", config, "--envpipe-start-clock", "1305",
            "--envpipe-lowest-clock", "900", "--envpipe-profile-step", "45", "--envpipe-raise-step", "15"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

TEST_F(PlanPolicies, PerseusFrontierIsPerseusOwn) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-unit", "0.001"}).exit_code, 0);
  const CsvTable table(text("frontier.csv"), "frontier.csv");
  ASSERT_GE(table.rows(), 2U);
  for (std::size_t row = 1; row < table.rows(); ++row) {
    EXPECT_NEAR(table.number(row, 0) - table.number(row - 1, 0), 0.001, 1e-9);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "exact_frontier.csv"));
}

TEST_F(PlanPolicies, WritesAPlanForEveryPointOfPerseusFrontier) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "all"}).exit_code, 0);
  const CsvTable table(text("frontier.csv"), "frontier.csv");
  const auto name = [](std::size_t number) { return fmt::format("freqs_pipeline_{:05}.py", number); };
  for (std::size_t number = 0; number < table.rows(); ++number) {
    const std::string file = text(name(number));
    const std::string key = fmt::format("# Iteration {}: refined cost ", number);
    ASSERT_THAT(file, HasSubstr(key));
    const std::size_t row = table.rows() - 1 - number;  // frontier.csv has the fastest first
    EXPECT_NEAR(std::stod(file.substr(file.find(key) + key.size())), table.number(row, 1), 1e-6);
    EXPECT_EQ(formats::read_perseus_plan(file, name(number)).stages.size(), 3U);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name(table.rows())));

  const std::string every_third = text(name(3));
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "every:3"}).exit_code, 0);
  EXPECT_EQ(text(name(3)), every_third);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name(2)));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / name(table.rows() - 1)));
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "2", "--perseus-format", "zeus"}).exit_code, 0);
  EXPECT_THAT(text(name(0)), HasSubstr("[('forward', "));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanPolicies, DrawsHowPerseusPlans) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plots", "2"}).exit_code, 0);
  const std::string page = text("perseus.html");
  EXPECT_THAT(page, HasSubstr("How Perseus' planner finds its plans"));
  EXPECT_THAT(page, HasSubstr("Iteration 0 of the search"));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  ASSERT_EQ(plan({"--policy", "perseus"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "perseus.html")) << "of the run before";
  EXPECT_THAT(refusal_of(plan({"--perseus-plots", "2"})), HasSubstr("--policy perseus"));
}

TEST_F(PlanPolicies, TakesTheOptionsOfLowtime) {
  const Json tolerant =
      planned({"--policy", "perseus", "--perseus-noise-factor", "0.9", "--perseus-always-use-noise-factor"});
  EXPECT_GT(tolerant["plans"][0]["time_s"], 0);
  const std::string guess = write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1)]}");
  EXPECT_THAT(refusal_of(plan({"--policy", "perseus", "--perseus-initial-guess", guess})), HasSubstr("guess.py:1:"));
  write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1, 1)] * 3}");
  EXPECT_EQ(plan({"--policy", "perseus", "--perseus-initial-guess", guess}).exit_code, 2) << "not evaluated";
  write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1, 1)]}");
  const ProgramResult lacking = plan({"--policy", "perseus", "--perseus-initial-guess", guess});
  EXPECT_EQ(lacking.exit_code, 2);
  EXPECT_EQ(plan({"--policy", "perseus", "--perseus-noise-factor", "1.5"}).exit_code, 2);
}

TEST_F(PlanPolicies, RefusesPlansOfPerseusFrontierForOtherPolicies) {
  EXPECT_THAT(refusal_of(plan({"--perseus-plans", "all"})), HasSubstr("--policy perseus"));
  EXPECT_THAT(refusal_of(plan({"--policy", "perseus", "--perseus-plans", "none"})), HasSubstr("every:50"));
}

TEST_F(PlanPolicies, TheReportMarksOrdersOfTheirOwnAndHasLowgearsPlanInThem) {
  ASSERT_EQ(plan({"--extra-activations", "4"}).exit_code, 0);
  const Json run = parse_json(text("run.json"), "run.json");
  const auto& rows = run["policies"];
  const auto envpipe =
      std::find_if(rows.begin(), rows.end(), [](const Json& row) { return row["policy"] == "envpipe"; });
  ASSERT_NE(envpipe, rows.end());
  EXPECT_EQ((*envpipe)["own_order"], true);
  const auto ours = std::next(envpipe);
  ASSERT_NE(ours, rows.end());
  EXPECT_EQ((*ours)["policy"], "lowgear (time and order of envpipe)");
  EXPECT_EQ((*ours)["own_order"], true);
  EXPECT_EQ((*ours)["peak_activations"], (*envpipe)["peak_activations"]);
  EXPECT_LE((*ours)["energy_j"].get<double>(), (*envpipe)["energy_j"].get<double>() * (1 + 1e-9));
  EXPECT_EQ(rows[0].contains("own_order"), false);
  EXPECT_EQ(rows[0]["peak_activations"], 3);
}

}  // namespace
}  // namespace lowgear::cli
