#include "training/launcher/server/server_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "base/http/message/router.h"

namespace lowgear::launcher {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kEnvPipeJob =
    "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
    "data: {synthetic_tokens: 1000, sequence_length: 32}\n"
    "parallel: {pp: 4, tp: 2}\n"
    "microbatches: 8\n"
    "microbatch_size: 3\n"
    "steps: 10\n"
    "schedule: envpipe\n"
    "server: {address: 'unix:/nowhere/server.sock'}\n";

TrainConfig envpipe_job(const std::vector<std::string>& settings = {}) {
  return parse_train_config(kEnvPipeJob, "train.yaml", "/jobs", settings);
}

/// Backwards take 2 s at 1400 MHz, and forwards 1.3 s at 1000, where they use least energy.
protocol::MeasuredCells measured(int stages) {
  protocol::MeasuredCells measured;
  const auto add = [&](int stage, OpKind kind, int clock_mhz, double time_s, double energy_j) {
    measured.cells.push_back({.stage = stage,
                              .kind = kind,
                              .clock_mhz = clock_mhz,
                              .units = 9,
                              .time_s = time_s,
                              .time_error_s = 1e-3,
                              .energy_j = energy_j,
                              .energy_error_j = 1e-3});
  };
  for (int stage = 0; stage < stages; ++stage) {
    add(stage, OpKind::forward, 1400, 1.0, 300);
    add(stage, OpKind::forward, 1000, 1.3, 100);
    add(stage, OpKind::backward, 1400, 2.0, 600);
    add(stage, OpKind::backward, 1000, 2.6, 200);
    measured.blocking.push_back({.stage = stage, .power_w = 75, .error_w = 1});
  }
  return measured;
}

TEST(ServedOrder, IsByTheMeasuredTimesWithinWhatTheJobMayHold) {
  // The rule gives floor(2 * 3 / 1.3), floor(2 * 2 / 1.3), floor(2 / 1.3) and 0; without a profile it is 4 4 2 0.
  const std::string most = "energy.envpipe.memory_limit=8";
  EXPECT_THAT(order_by_profile(envpipe_job({most}), measured(4)).early_forwards, ElementsAre(4, 3, 1, 0));
  const ServedOrder limited =
      order_by_profile(envpipe_job({"energy.policy=envpipe", "energy.envpipe.memory_limit=6,5,3,1"}), measured(4));
  EXPECT_THAT(limited.early_forwards, ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(limited.note, HasSubstr("its rule asks for 4 3 1 0"));
}

TEST(ServedOrder, HoldsWhat1F1BDoesUnlessItIsStatedWhatFits) {
  for (const std::vector<std::string>& policy : {std::vector<std::string>{}, {"energy.policy=envpipe"}}) {
    const ServedOrder unstated = order_by_profile(envpipe_job(policy), measured(4));
    EXPECT_THAT(unstated.early_forwards, ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(unstated.note, HasSubstr("early forwards 0 0 0 0 by the forward and backward times"));
    EXPECT_THAT(unstated.note, HasSubstr("--memory-limit"));
  }
  // A server's profile does not have what a microbatch's activations take.
  const ServedOrder bytes = order_by_profile(envpipe_job({"energy.envpipe.memory_limit=12GiB"}), measured(4));
  EXPECT_THAT(bytes.early_forwards, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(bytes.note, HasSubstr("it is not known how many microbatches 12GiB are"));
}

TEST(ServedOrder, IsOfAProfileThatFits) {
  EXPECT_THROW((void)order_by_profile(envpipe_job(), measured(3)), InputError);
  EXPECT_THROW((void)order_by_profile(envpipe_job(), measured(5)), InputError);
  protocol::MeasuredCells lacking = measured(4);
  lacking.cells.pop_back();
  lacking.cells.pop_back();
  EXPECT_THROW((void)order_by_profile(envpipe_job(), lacking), InputError);
}

TEST(ServedOrder, IsTheServersWhereNothingElseSaysIt) {
  EXPECT_TRUE(has_servers_order(envpipe_job()));
  EXPECT_TRUE(has_servers_order(envpipe_job({"energy.policy=envpipe"})));
  EXPECT_FALSE(has_servers_order(envpipe_job({"schedule=1f1b"})));
  EXPECT_FALSE(has_servers_order(envpipe_job({"early_forwards=[3,2,1,0]"})));
  EXPECT_FALSE(has_servers_order(
      envpipe_job({"energy.policy=envpipe", "energy.envpipe.profile=p.csv", "energy.envpipe.blocking_power=75"})));
}

TEST(ServedOrder, IsAskedForByTheKeyOfTheJob) {
  const TrainConfig config = envpipe_job({"partition=custom:0,1,2,3,4"});
  const std::string query = profile_query(config, "NVIDIA A100 100% & more", true);
  ASSERT_EQ(query[0], '?');
  const auto asked = http::parse_target("/v1/profile", query.substr(1)).parameters;
  Json body = Json::parse(server_job_json(config));
  body["run"] = "r";
  body["gpu"] = "NVIDIA A100 100% & more";
  const protocol::JobSpec job = protocol::read_job_spec(JsonView(body, "job"));
  protocol::JobSpec of_query;
  of_query.model = asked.at("model");
  of_query.partition = asked.at("partition");
  of_query.gpu = asked.at("gpu");
  of_query.parallel = {.pp = std::stoi(asked.at("pp")),
                       .dp = 1,
                       .tp = std::stoi(asked.at("tp")),
                       .chunks = std::stoi(asked.at("chunks"))};
  of_query.microbatch_size = std::stoi(asked.at("microbatch_size"));
  EXPECT_EQ(of_query.profile_key(asked.at("simulated") == "1"), job.profile_key(true));
}

TEST(ServedOrder, IsTheAssumedOneWhereNoServerAnswers) {
  const ServedOrder order = ask_order(envpipe_job(), "A100", false, std::chrono::seconds(1));
  EXPECT_THAT(order.early_forwards, IsEmpty());
  EXPECT_THAT(order.note, HasSubstr("/nowhere/server.sock"));
  EXPECT_THAT(order.note, HasSubstr("a backward is assumed to take twice as long as a forward"));
}

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

TEST(ServerJob, SaysThatItPlansItsOwnSteps) {
  const auto parse_steps = [](const std::string& server) {
    return parse_train_config(
        "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
        "data: {synthetic_tokens: 1000, sequence_length: 32, document_end: 10}\n"
        "parallel: {pp: 2, dp: 3}\n"
        "microbatches: 8\n"
        "steps: 10\n"
        "energy: {steps: {profile: p.csv}}\n"
        "server: {address: 'unix:/nowhere/server.sock'" +
            server + "}\n",
        "train.yaml", "/jobs", {});
  };
  const Json said = job(parse_steps(", name: lengths"));
  EXPECT_EQ(said["policy"], "steps");
  EXPECT_TRUE(said["profile"].is_null());
  for (const char* const member :
       {"policy: lowgear", "slowdown_pct: 1", "guard_pct: 1", "switch_latency_ms: 1", "profile: {clocks: 4}"}) {
    EXPECT_THAT(error_of([&] { (void)parse_steps(std::string(", ") + member); }),
                HasSubstr("the server does not plan a job that has energy.steps"))
        << member;
  }
}

/// All that the server reads of a job, but for what the client library adds.
TEST(ServerJob, HasOneFormOnTheWire) {
  EXPECT_EQ(server_job_json(parse_with({"server.name=j"})),
            R"({"name":"j","framework":"lowgear","model":")" + model_text(parse_with()) +
                R"(","partition":"uniform","parallel":{"pp":2,"dp":3,"tp":1,"chunks":1},"schedule":"1f1b",)"
                R"("microbatches":8,"microbatch_size":1,"slowdown_pct":5.0,"guard_pct":2.0,"switch_latency_ms":25.0,)"
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
  for (const char* setting :
       {"model.hidden=128", "model.layers=8", "model.kv_heads=2", "model.intermediate=100", "model.vocabulary=512",
        "data.sequence_length=16", "type=bf16", "type=fp16", "recompute=true", "recompute=attention",
        "recompute=[none, full]", "device=cuda", "simulated_gpu.layer_forward_s=0.01"}) {
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
