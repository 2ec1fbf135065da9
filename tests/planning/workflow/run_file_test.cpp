#include "planning/workflow/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"

namespace lowgear::workflow {
namespace {

using ::testing::HasSubstr;

RunFile sample_run() {
  RunFile run;
  run.version = "0.1.0";
  run.command = "lowgear plan --out 'a b'";
  run.policy = "lowgear";
  run.profile = "p.csv";
  run.stages = 2;
  run.microbatches = 7;
  run.schedule = "1f1b";
  run.blocking_power_w = {70.25, 71};
  run.method = planner::FrontierMethod::sandwich;
  run.epsilon = 0.001;
  run.granularity = planner::PlanGranularity::per_stage_kind;
  run.switch_latency_s = 0.015;
  run.asked_deadline_s = 1.25;
  run.policies = {{.policy = "max",
                   .time_s = 1.5,
                   .energy_j = 20.25,
                   .lower_bound_j = 19.5,
                   .plan_time_s = 0.001,
                   .note = "a note",
                   .peak_activations = 8},
                  {.policy = "envpipe", .time_s = 1.6, .energy_j = 18, .switches = 3, .own_order = true}};
  run.warnings = {"careful"};
  return run;
}

TEST(RunFile, ReadsBackWhatItWrites) {
  const std::string text = write_run(sample_run());
  EXPECT_EQ(write_run(read_run(text, "run.json")), text);
  const RunFile run = read_run(text, "run.json");
  EXPECT_EQ(run.method, planner::FrontierMethod::sandwich);
  EXPECT_EQ(run.granularity, planner::PlanGranularity::per_stage_kind);
  EXPECT_EQ(run.blocking_power_w, (std::vector<double>{70.25, 71}));
  EXPECT_EQ(run.asked_deadline_s, 1.25);
  ASSERT_EQ(run.policies.size(), 2U);
  EXPECT_EQ(run.policies[0].lower_bound_j, 19.5);
  EXPECT_EQ(run.policies[1].lower_bound_j, std::nullopt);
  EXPECT_EQ(run.policies[1].plan_time_s, std::nullopt);
}

TEST(RunFile, APolicyIsCalledByWhatItAimedAt) {
  RunFile run = sample_run();
  run.policies[0].aim = "T_min";
  const std::string text = write_run(run);
  EXPECT_EQ(read_run(text, "run.json").policies[0].policy, "max (T_min)");
  EXPECT_EQ(write_run(read_run(text, "run.json")), text);
}

TEST(RunFile, NamesThatAreNoUtf8AreWrittenAllTheSame) {
  RunFile run = sample_run();
  run.profile = "caf\xE9.csv";
  EXPECT_EQ(read_run(write_run(run), "run.json").profile, "caf\xEF\xBF\xBD.csv");
}

/// The error of reading the sample with one member changed.
std::string error_with(const std::string& key, const Json& value) {
  Json json = parse_json(write_run(sample_run()), "run.json");
  json[key] = value;
  return error_of([&] { (void)read_run(json.dump(), "run.json"); });
}

TEST(RunFile, SaysWhereItIsWrong) {
  EXPECT_THAT(error_with("format", "lowgear.run/9"), HasSubstr("lowgear.run/1"));
  EXPECT_THAT(error_with("stages", 0), HasSubstr("$.stages"));
  EXPECT_THAT(error_with("stages", 3), HasSubstr("$.blocking_power_w"));
  EXPECT_THAT(error_with("blocking_power_w", Json({-1, 2})), HasSubstr("$.blocking_power_w[0]"));
  EXPECT_THAT(error_with("frontier_method", "guess"), HasSubstr("exact or sandwich"));
  EXPECT_THAT(error_with("epsilon", 7), HasSubstr("$.epsilon"));
  EXPECT_THAT(error_with("policies", Json::array({1})), HasSubstr("$.policies[0]"));
}

}  // namespace
}  // namespace lowgear::workflow
