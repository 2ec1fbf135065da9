#include "app/cli/call/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json plan_request(const std::string& profile = small_profile(3)) {
  return {{"options",
           {{"profile", "profile.csv"},
            {"stages", 3},
            {"microbatches", 6},
            {"blocking-power", "70"},
            {"slow-rank", {"1=1.3"}},
            {"slowdown", 2.5},
            {"out", "plan"}}},
          {"files", {{"profile.csv", profile}}},
          {"keep", {"plan"}}};
}

Json called(const std::string& verb, const Json& request) {
  return call(verb, request.dump(), [] { return false; });
}

TEST(Call, PlansAsTheCommandDoes) {
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(3));
  const ProgramResult printed = run_lowgear(
      pipeline_command("plan", profile, 3, 6,
                       {"--slow-rank", "1=1.3", "--slowdown", "2.5", "--json", "--out", (folder / "out").string()}));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const Json reply = called("plan", plan_request());
  ASSERT_FALSE(reply.contains("error")) << reply;
  EXPECT_EQ(reply["result"]["plans"], parse_json(printed.out, "printed")["plans"]);
  for (const char* file : {"plans/00000.json", "frontier.csv", "certificate.txt"}) {
    EXPECT_EQ(reply["files"][std::string("plan/") + file], read_file(folder / "out" / file)) << file;
  }
}

TEST(Call, ReadsAFolderFromMemory) {
  Json request = plan_request();
  request["options"].erase("slow-rank");
  const Json planned = called("plan", request);
  const Json verified = called("verify", {{"arguments", {"plan"}}, {"files", planned["files"]}});
  EXPECT_EQ(verified["result"]["ok"], true) << verified;
  const Json replanned =
      called("plan --change", {{"arguments", {"plan"}}, {"options", {{"layers", 6}}}, {"files", planned["files"]}});
  EXPECT_TRUE(replanned["result"].contains("after")) << replanned;
  const Json replayed = called("verify --replay", {{"options",
                                                    {{"plan", "plan/plans/00000.json"},
                                                     {"profile", "plan/profile.csv"},
                                                     {"blocking-power", 70},
                                                     {"trace", "trace.json"}}},
                                                   {"files", planned["files"]},
                                                   {"keep", {"trace.json"}}});
  EXPECT_EQ(replayed["result"]["schedule"], "1f1b") << replayed;
  EXPECT_TRUE(replayed["files"].contains("trace.json"));
}

TEST(Call, AnswersNoInItsResult) {
  Json planned = called("plan", plan_request());
  Json plan = parse_json(planned["files"]["plan/plans/00000.json"].get<std::string>(), "plan");
  plan["energy_j"] = 1;
  planned["files"]["plan/plans/00000.json"] = plan.dump();
  const Json verified = called("verify", {{"arguments", {"plan"}}, {"files", planned["files"]}});
  EXPECT_EQ(verified["result"]["ok"], false) << verified;
}

TEST(Call, SaysWhereAFileIsWrong) {
  const std::string profile =
      "stage,instruction,frequency,time,energy\n0,forward,1410,0.05,18\n0,forward,1200,fast,16\n";
  const Json error = called("plan", plan_request(profile))["error"];
  EXPECT_EQ(error["kind"], "invalid");
  EXPECT_EQ(error["exit_code"], 2);
  EXPECT_EQ(error["file"], "profile.csv");
  EXPECT_EQ(error["line"], 3);
  EXPECT_EQ(error["column"], 16);
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr("profile.csv:3:16: " + error["problem"].get<std::string>()));
}

TEST(Call, SaysWhereAMemberOfAModelIsRefused) {
  constexpr const char* kJob =
      "gpu: H100-SXM\nbatch: {global: 8, sequence: 1024}\nmodel:\n  model_type: gpt2\n  vocab_size: 512\n"
      "  n_positions: 1024\n  n_embd: 64\n  n_layer: 2\n  n_head: 2\n  pruned_heads: {0: [1]}\n";
  const Json error = called("estimate", {{"options", {{"job", "job.yaml"}}}, {"files", {{"job.yaml", kJob}}}})["error"];
  EXPECT_EQ(error["file"], "job.yaml") << error;
  EXPECT_EQ(error["line"], 10);
  EXPECT_EQ(error["column"], 17);
  EXPECT_EQ(error["problem"], "model.pruned_heads: layers without some of their heads are not supported");
}

TEST(Call, SaysWhichMemberOfADocumentIsWrong) {
  Json planned = called("plan", plan_request());
  Json plan = parse_json(planned["files"]["plan/plans/00000.json"].get<std::string>(), "plan");
  plan["energy_j"] = "much";
  const Json error = called("verify --replay",
                            {{"options", {{"plan", "plan.json"}, {"profile", "profile.csv"}, {"blocking-power", 70}}},
                             {"files", {{"plan.json", plan.dump()}, {"profile.csv", small_profile(3)}}}})["error"];
  EXPECT_EQ(error["file"], "plan.json") << error;
  EXPECT_THAT(error["problem"].get<std::string>(), HasSubstr("$.energy_j: "));
}

TEST(Call, WritesOptionsInMessagesAsItsCallerWould) {
  Json request = plan_request();
  request["options"].erase("blocking-power");
  request["parameters"] = {{"blocking-power", "blocking_power_w"}};
  EXPECT_THAT(called("plan", request)["warnings"].dump(), HasSubstr(" blocking_power_w"));
  request["options"]["blocking-power"] = "75000";
  EXPECT_THAT(called("plan", request)["error"]["message"].get<std::string>(), HasSubstr(": accept_units=True"));
}

TEST(Call, NamesArgumentsAsItsCallerDoes) {
  Json request = plan_request();
  request["options"]["slowdown"] = -1;
  request["parameters"] = {{"slowdown", "slowdown_pct"}};
  Json error = called("plan", request)["error"];
  EXPECT_EQ(error["argument"], "slowdown_pct");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("slowdown_pct: expected a number"));
  request = plan_request();
  request["options"]["memory-limit"] = "8";
  error = called("plan", request)["error"];
  EXPECT_EQ(error["argument"], "memory_limit");
  EXPECT_THAT(error["message"].get<std::string>(), Not(HasSubstr("--")));
  request["options"]["stagess"] = 2;
  EXPECT_EQ(called("plan", request)["error"]["message"], "there is no option stagess; did you mean stages?");
}

TEST(Call, RefusesWhatIsNoRequest) {
  const auto message = [](std::string_view verb, std::string_view request) {
    const Json error = call(verb, request, [] { return false; })["error"];
    EXPECT_EQ(error["kind"], "invalid");
    return error["message"].get<std::string>();
  };
  EXPECT_THAT(message("plan", "{"), HasSubstr("request:1:"));
  EXPECT_THAT(message("plan", R"({"files": 3})"), HasSubstr("request: "));
  EXPECT_THAT(message("plan", R"({"options": {"help": true}})"), HasSubstr("request"));
  EXPECT_THAT(message("serve", "{}"), HasSubstr("there is no command \"serve\""));
}

TEST(Call, EndsWhenItsCallerCancelsIt) {
  const Json files = called("plan", plan_request())["files"];
  const Json simulated = {
      {"plan", "plan/plans/00000.json"}, {"profile", "plan/profile.csv"}, {"blocking-power", 70}, {"pipelines", 2}};
  const Json emulated = {{"profile", "plan/profile.csv"}, {"microbatches", 6}, {"blocking-power", 70}};
  const std::map<std::string, Json> requests = {{"plan", plan_request()},
                                                {"verify", {{"arguments", {"plan"}}, {"files", files}}},
                                                {"verify --replay", {{"options", simulated}, {"files", files}}},
                                                {"published emulate", {{"options", emulated}, {"files", files}}}};
  for (const auto& [verb, request] : requests) {
    EXPECT_FALSE(called(verb, request).contains("error")) << verb;
    EXPECT_EQ(call(verb, request.dump(), [] { return true; })["error"]["kind"], "interrupted") << verb;
  }
}

TEST(Call, RunsInManyThreadsAtOnce) {
  const Json expected = called("plan", plan_request());
  std::vector<std::thread> threads;
  std::vector<Json> replies(4);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    threads.emplace_back([&replies, i] {
      Json request = plan_request();
      if (i % 2 == 1) request["options"]["microbatches"] = 0;
      replies[i] = called("plan", request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(replies[0]["files"]["plan/frontier.csv"], expected["files"]["plan/frontier.csv"]);
  EXPECT_EQ(replies[1]["error"]["argument"], "microbatches");
  EXPECT_EQ(replies[2]["files"]["plan/frontier.csv"], expected["files"]["plan/frontier.csv"]);
}

}  // namespace
}  // namespace lowgear::cli
