#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
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
  others.emplace_back("--plan");
  return json_of(estimate(std::move(others)))["plan"];
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
  EXPECT_THAT(result.out, HasSubstr("\nNext: lowgear plan " + path + " --microbatches 16 --schedule 1f1b --out DIR"));
  EXPECT_EQ(profile::read_profile_file(read_file(path), path).profile.stages(), 4);
  const ProgramResult plan = run_lowgear(
      {"plan", path, "--microbatches", "16", "--schedule", "1f1b", "--plans", "2", "--out", (folder / "out").string()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("rows are predicted, not measured"));
  EXPECT_THAT(plan.err, Not(HasSubstr("blocking power"))) << "the profile has that of the job's GPU";
}

TEST(EstimatePlan, WritesAPage) {
  const TemporaryFolder folder;
  const auto page = folder / "estimate.html";
  const ProgramResult result = run_lowgear(estimate({"--html", page.string()}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(read_file(page.string()), AllOf(HasSubstr("Where the time goes"), HasSubstr("Where the energy goes"),
                                              HasSubstr("Where the memory goes")));
}

/// The data of the page of a job.
Json page_of(std::vector<std::string> command) {
  const TemporaryFolder folder;
  const std::string page = (folder / "estimate.html").string();
  command.insert(command.end(), {"--html", page});
  const ProgramResult result = run_lowgear(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = read_file(page);
  const std::size_t begin = text.find("{\"format\":\"lowgear.estimate_report/1\"");
  return parse_json(text.substr(begin, text.find("</script>", begin) - begin), "page");
}

TEST(EstimatePlan, ThePageNamesWhatTheTextNames) {
  const Json page = page_of(estimate());
  std::map<std::string, std::string> facts;
  for (const Json& fact : page["facts"]) facts[fact[0].get<std::string>()] = fact[1].get<std::string>();
  EXPECT_EQ(facts["Attention"], "fused");
  EXPECT_EQ(facts["Overlapped"], "gradients, tensor_gradients");
  EXPECT_THAT(facts["Links of a GPU"], HasSubstr("GB/s within nodes, "));
  EXPECT_THAT(facts["Power by clock"], HasSubstr("published "));
  ASSERT_EQ(page["tables"].size(), 3U);
  EXPECT_EQ(page["tables"][1]["title"], "The same job on other software");
  EXPECT_EQ(page["tables"][1]["rows"][page["tables"][1]["chosen"].get<std::size_t>()][0], "megatron");
  EXPECT_EQ(page["tables"][2]["columns"], Json::array({"Part", "Memory", "From"}));
  EXPECT_THAT(page["reading"].dump(), HasSubstr("MHz by pass, not 1410: the power limit is 400 W"));
  EXPECT_THAT(page["bars"][2]["parts"].dump(), HasSubstr("\"margin\""));
  EXPECT_TRUE(page["cards"][4]["value"].get<std::string>().starts_with("-")) << page["cards"][4];
}

TEST(EstimatePlan, ThePageOfOneStageSaysThatItSavesNothing) {
  const Json card = page_of({"estimate", "--model", "gpt2-xl", "--gpu", "a100", "--gpus", "8", "--global-batch", "32",
                             "--seq", "1024"})["cards"][4];
  EXPECT_EQ(card["value"], "0.00 %");
  EXPECT_EQ(card["detail"], "nothing to save with pp 1: no stage waits for another");
}

TEST(EstimatePlan, ThePageIsNamedAfterTheModel) {
  const TemporaryFolder folder;
  const std::string config = R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 48,
                                 "n_head": 25, "n_positions": 4096})";
  std::filesystem::create_directories(folder / "own");
  for (const char* const file : {"own/config.json", "mine.json"}) write_text(folder / file, config);
  const auto title = [&folder](const char* model) {
    return page_of({"estimate", "--model", (folder / model).string(), "--gpu", "a100", "--gpus", "16", "--global-batch",
                    "32", "--seq", "1024"})["title"];
  };
  EXPECT_EQ(title("own/config.json"), "own on 16 a100-80gb-sxm");
  EXPECT_EQ(title("own"), "own on 16 a100-80gb-sxm");
  EXPECT_EQ(title("mine.json"), "mine on 16 a100-80gb-sxm");
}

TEST(EstimatePlan, RefusesWhatMakesNoSense) {
  const auto error_of = [](std::vector<std::string> others) { return refusal_of(estimate(std::move(others))); };
  EXPECT_THAT(error_of({"--plan", "--deadline", "0.001"}), HasSubstr("not possible"));
  EXPECT_THAT(error_of({"--plan", "--policy", "best"}), HasSubstr("best"));
  EXPECT_THAT(error_of({"--slowdown", "2"}), HasSubstr("--plan"));
  EXPECT_THAT(error_of({"--plan", "--slowdown", "2", "--deadline", "3"}), HasSubstr("--deadline"));
  EXPECT_THAT(error_of({"--plan", "--kwh", "much"}), HasSubstr("--kwh"));
}

}  // namespace
}  // namespace lowgear::cli
