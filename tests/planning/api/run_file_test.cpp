#include "planning/api/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"

namespace lowgear::api {

namespace {

using ::testing::HasSubstr;
using Curve = std::vector<simulator::PipelineFigures>;

TEST(JointFrontier, OfOneOrderIsItsFrontier) {
  const std::vector<Curve> curves{{{1, 10}, {2, 6}, {3, 5}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  ASSERT_EQ(points.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(points[i].time_s, curves[0][i].time_s);
    EXPECT_EQ(points[i].energy_j, curves[0][i].energy_j);
    EXPECT_EQ(points[i].order, 0);
  }
}

TEST(JointFrontier, ChangesTheOrderWhereTheyCrossAndNeverRises) {
  // The second starts later and lower; they cross at 2.5 s and 5.5 J.
  const std::vector<Curve> curves{{{1, 10}, {2, 6}, {4, 4}}, {{2.25, 6}, {2.75, 5}, {4, 3.5}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  EXPECT_EQ(points.front().order, 0);
  EXPECT_EQ(points.back().order, 1);
  EXPECT_EQ(points.back().energy_j, 3.5);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &JointPoint::time_s));

  const auto first = std::ranges::find(points, 1, &JointPoint::order);
  EXPECT_NEAR(first->time_s, 2.5, 1e-9);
  EXPECT_NEAR(first->energy_j, 5.5, 1e-9);
  EXPECT_NEAR(std::prev(first)->time_s, 2.5, 1e-9);
}

TEST(JointFrontier, AnOrderThatIsBetterNowhereHasNoPoint) {
  const std::vector<Curve> curves{{{1, 10}, {3, 5}}, {{1.5, 12}, {3, 6}}};
  for (const JointPoint& point : joint_frontier(curves)) EXPECT_EQ(point.order, 0);
}

TEST(JointFrontier, AnOrderThatStartsBelowIsAJump) {
  const std::vector<Curve> curves{{{1, 10}, {3, 9}}, {{2, 5}, {3, 4}}};
  const std::vector<JointPoint> points = joint_frontier(curves);
  const auto first = std::ranges::find(points, 1, &JointPoint::order);
  ASSERT_NE(first, points.end());
  EXPECT_NEAR(first->time_s, 2, 1e-9);
  EXPECT_NEAR(first->energy_j, 5, 1e-6);
  EXPECT_NEAR(std::prev(first)->time_s, 2, 1e-9);
  EXPECT_NEAR(std::prev(first)->energy_j, 9.5, 1e-6);
}

TEST(JointFrontier, IsReadAsItIsWritten) {
  const std::vector<JointPoint> points{{1.25, 10, 0}, {2, 6.5, 1}};
  const std::vector<JointPoint> read = read_joint_frontier(write_joint_frontier(points), "frontier.csv");
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[1].time_s, 2);
  EXPECT_EQ(read[1].energy_j, 6.5);
  EXPECT_EQ(read[1].order, 1);
  EXPECT_THAT(error_of([] { (void)read_joint_frontier("time_s,energy_j,order\n1,2,-1\n", "f.csv"); }),
              HasSubstr("no order -1"));
  EXPECT_THAT(error_of([] { (void)read_joint_frontier("time_s,energy_j,order\n", "f.csv"); }), HasSubstr("no rows"));
}

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
  run.late_by_s = 0.015;
  run.clock_lead_s = 0.025;
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
  run.layers = {.counts = {13, 11}, .alike = false};
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
  EXPECT_THAT(error_with("layers", {{"counts", {1, 2, 3}}, {"alike", true}}), HasSubstr("$.layers.counts"));
}

}  // namespace

}  // namespace lowgear::api
