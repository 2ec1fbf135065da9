#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> estimate(std::vector<std::string> others = {}) {
  std::vector<std::string> command{"estimate", "--model", "llama-2-7b", "--gpu", "a100", "--gpus",
                                   "16",       "--tp",    "2",          "--pp",  "4",    "--global-batch",
                                   "32",       "--seq",   "4096"};
  command.insert(command.end(), others.begin(), others.end());
  return command;
}

Json planned(std::vector<std::string> others) {
  others.insert(others.end(), {"--plan", "--json"});
  const ProgramResult result = run_lowgear(estimate(std::move(others)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(result.out, "stdout")["plan"];
}

TEST(EstimatePlan, SaysWhatClocksWouldSave) {
  const ProgramResult result = run_lowgear(estimate({"--plan"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("one iteration of 16 GPUs"), HasSubstr("no later"),
                    HasSubstr("planned on estimated values"), Not(HasSubstr("cost $")), Not(HasSubstr("CO2"))))
      << "no price was said";
  const Json plan = planned({});
  const Json& full = plan["rows"][0];
  const Json& no_later = plan["rows"][1];
  EXPECT_LE(no_later["time_s"].get<double>(), full["time_s"].get<double>() * (1 + 1e-12));
  EXPECT_LT(no_later["energy_j"].get<double>(), full["energy_j"].get<double>());
  EXPECT_GT(plan["frontier"].size(), 2U);
}

TEST(EstimatePlan, CountsCostAndCo2FromWhatTheUserPays) {
  const Json row = planned({"--gpu-hour", "3.6", "--kwh", "0.36", "--co2", "360"})["rows"][0];
  const double time_s = row["time_s"];
  const double energy_j = row["energy_j"];
  EXPECT_NEAR(row["cost_usd"].get<double>(), 16 * time_s * 1e-3 + energy_j * 1e-7, 1e-9);
  EXPECT_NEAR(row["co2_g"].get<double>(), energy_j * 1e-4, 1e-9);
}

TEST(EstimatePlan, PlansForADeadlineAndWithOtherPolicies) {
  const Json slower = planned({"--slowdown", "2"});
  ASSERT_EQ(slower["rows"].size(), 4U);
  EXPECT_LT(slower["rows"][2]["energy_j"].get<double>(), slower["rows"][1]["energy_j"].get<double>());
  const Json zeus = planned({"--policy", "zeus-global"});
  EXPECT_EQ(zeus["rows"][2]["name"], "zeus-global");
  EXPECT_EQ(zeus["rows"][2]["basis"], "replayed");
}

TEST(EstimatePlan, EmitsAProfileThatPlanTakes) {
  const TemporaryFolder folder;
  const std::string path = (folder / "profile.csv").string();
  const ProgramResult result = run_lowgear(estimate({"--emit-profile", path}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("estimated, not measured"));
  EXPECT_THAT(result.out, HasSubstr("\nNext: lowgear plan --profile "));
  EXPECT_EQ(profile::read_profile_file(read_file(path), path).profile.stages(), 4);
  const ProgramResult plan =
      run_lowgear({"plan", "--profile", path, "--stages", "4", "--microbatches", "16", "--schedule", "1f1b",
                   "--blocking-power", "83.64", "--plans", "2", "--out", (folder / "out").string()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

TEST(EstimatePlan, WritesAPage) {
  const TemporaryFolder folder;
  const auto page = folder / "estimate.html";
  const ProgramResult result = run_lowgear(estimate({"--html", page.string()}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(read_file(page.string()), AllOf(HasSubstr("Where the time goes"), HasSubstr("Where the energy goes"),
                                              HasSubstr("Where the memory goes")));
}

TEST(EstimatePlan, RefusesWhatMakesNoSense) {
  const auto error_of = [](std::vector<std::string> others) {
    const ProgramResult result = run_lowgear(estimate(std::move(others)));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error_of({"--plan", "--deadline", "0.001"}), HasSubstr("not possible"));
  EXPECT_THAT(error_of({"--plan", "--policy", "best"}), HasSubstr("best"));
  EXPECT_THAT(error_of({"--slowdown", "2"}), HasSubstr("--plan"));
  EXPECT_THAT(error_of({"--plan", "--slowdown", "2", "--deadline", "3"}), HasSubstr("--deadline"));
  EXPECT_THAT(error_of({"--plan", "--kwh", "much"}), HasSubstr("--kwh"));
}

}  // namespace
}  // namespace lowgear::cli
