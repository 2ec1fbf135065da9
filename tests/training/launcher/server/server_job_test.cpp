#include "training/launcher/server/server_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::launcher {
namespace {

using testing::HasSubstr;

constexpr const char* kJob =
    "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
    "data: {synthetic_tokens: 1000, sequence_length: 32}\n"
    "parallel: {pp: 2, dp: 3}\n"
    "microbatches: 8\n"
    "steps: 10\n"
    "server: {address: 'unix:/run/lowgear/server.sock', token_file: token, slowdown_pct: 5}\n";

TrainConfig parse_with(const std::vector<std::string>& settings = {}) {
  return parse_train_config(kJob, "train.yaml", "/jobs", settings);
}
Json job(const TrainConfig& config) { return parse_json(server_job_json(config), "job"); }

TEST(ServerJob, SaysWhatTheServerPlansBy) {
  const TrainConfig config = parse_with({"server.profile.clocks=4", "server.profile.max_mhz=1500"});
  EXPECT_EQ(config.server->token_file, "/jobs/token");
  EXPECT_FALSE(config.server->ca_file);
  EXPECT_EQ(parse_with({"server.ca_file=ca.pem"}).server->ca_file, "/jobs/ca.pem");
  const Json said = job(config);
  EXPECT_EQ(said["parallel"], (Json{{"pp", 2}, {"dp", 3}, {"tp", 1}, {"chunks", 1}}));
  EXPECT_EQ(said["schedule"], "1f1b");
  EXPECT_EQ(said["microbatches"], 8);
  EXPECT_EQ(said["slowdown_pct"], 5);
  EXPECT_EQ(said["guard_pct"], 2);
  EXPECT_EQ(said["profile"]["clocks"], 4);
  EXPECT_EQ(said["profile"]["min_mhz"], Json());
  EXPECT_EQ(said["profile"]["max_mhz"], 1500);
  EXPECT_FALSE(said.contains("run"));
  EXPECT_TRUE(job(parse_with({"server.profile.clocks=0"}))["profile"].is_null());
}

TEST(ServerJob, StatesAPolicyOnlyWhereTheConfigurationDoes) {
  EXPECT_FALSE(job(parse_with()).contains("policy"));
  EXPECT_EQ(job(parse_with({"server.policy=perseus"}))["policy"], "perseus");
  EXPECT_EQ(job(parse_with({"server.policy=lowgear"}))["policy"], "lowgear");
  EXPECT_EQ(job(parse_with({"energy.policy=envpipe"}))["policy"], "envpipe");
  const auto refusal = [](const std::vector<std::string>& settings) {
    return error_of([&] { (void)parse_with(settings); });
  };
  EXPECT_THAT(refusal({"server.policy=envpipe"}), HasSubstr("write lowgear or perseus"));
  EXPECT_THAT(refusal({"server.policy=zeus"}), HasSubstr("server.policy"));
  EXPECT_THAT(refusal({"server.policy=perseus", "energy.policy=envpipe"}), HasSubstr("energy.policy is another one"));
}

/// All that the server reads of a job, but for what the client library adds.
TEST(ServerJob, HasOneFormOnTheWire) {
  EXPECT_EQ(server_job_json(parse_with({"server.name=j"})),
            R"({"name":"j","framework":"lowgear","model":")" + model_text(parse_with()) +
                R"(","partition":"uniform","parallel":{"pp":2,"dp":3,"tp":1,"chunks":1},"schedule":"1f1b",)"
                R"("microbatches":8,"microbatch_size":1,"slowdown_pct":5.0,"guard_pct":2.0,"switch_latency_ms":0.0,)"
                R"("profile":{"clocks":6,"iterations":5,"settle_iterations":0,"min_mhz":null,"max_mhz":null,)"
                R"("allowance_pct":2.0,"allowance_iterations":500}})");
}

TEST(ServerJob, GivesAScheduleOfItsOwnAsText) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "mine.csv", "0F0,0B0\n");
  EXPECT_EQ(job(parse_with({"schedule=" + (folder / "mine.csv").string()}))["schedule"]["csv"], "0F0,0B0\n");
  EXPECT_THAT(error_of([&] { (void)job(parse_with({"schedule=none.csv"})); }), HasSubstr("/jobs/none.csv"));
}

/// Whatever decides how long units take tells models apart: a profile is shared by those of the same text.
TEST(ServerJob, TellsModelsApartWhoseUnitsTakeDifferentTimes) {
  const std::string model = model_text(parse_with());
  for (const char* setting : {"model.hidden=128", "model.layers=8", "model.kv_heads=2", "model.intermediate=100",
                              "model.vocabulary=512", "data.sequence_length=16", "type=bf16", "recompute=true",
                              "device=cuda", "simulated_gpu.layer_forward_s=0.01"}) {
    EXPECT_NE(model_text(parse_with({setting})), model) << setting;
  }
  EXPECT_EQ(model_text(parse_with({"seed=2", "optimizer.learning_rate=0.1", "steps=20"})), model);
}

TEST(ServerJob, RefusesClocksOfAnotherPlan) {
  EXPECT_THAT(error_of([] { (void)parse_with({"energy.plan=plan.json"}); }), HasSubstr("leave out energy.plan"));
  EXPECT_THAT(error_of([] {
                (void)parse_with({"server.profile.min_mhz=900", "server.profile.max_mhz=800"});
              }),
              HasSubstr("max_mhz"));
  EXPECT_THAT(error_of([] { (void)parse_with({"server.port=1"}); }), HasSubstr("port"));
}

}  // namespace
}  // namespace lowgear::launcher
