#include "planning/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <random>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/formats/json.h"

namespace lowgear::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Plan small_plan() {
  return {.policy = "lowgear",
          .schedule = "1f1b",
          .gpu_name = "NVIDIA A100-SXM4-80GB",
          .microbatches = 1,
          .deadline_s = 0.5,
          .time_s = 0.4,
          .energy_j = 10.5,
          .lower_bound_j = 10.0,
          .clock_lead_s = 0.025,
          .switches = 2,
          .ranks = {{{0, OpKind::forward, 0, 1410, 0.0, 0.1}, {0, OpKind::backward, 0, 1200, 0.1, 0.3}}}};
}

void expect_equal(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.policy, b.policy);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.gpu_name, b.gpu_name);
  EXPECT_EQ(a.microbatches, b.microbatches);
  EXPECT_EQ(a.deadline_s, b.deadline_s);
  EXPECT_EQ(a.time_s, b.time_s);
  EXPECT_EQ(a.energy_j, b.energy_j);
  EXPECT_EQ(a.lower_bound_j, b.lower_bound_j);
  EXPECT_EQ(a.clock_lead_s, b.clock_lead_s);
  EXPECT_EQ(a.switches, b.switches);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    ASSERT_EQ(a.ranks[rank].size(), b.ranks[rank].size());
    for (std::size_t i = 0; i < a.ranks[rank].size(); ++i) {
      const PlannedOp& x = a.ranks[rank][i];
      const PlannedOp& y = b.ranks[rank][i];
      EXPECT_EQ(std::tie(x.stage, x.kind, x.microbatch, x.clock_mhz, x.start_s, x.duration_s),
                std::tie(y.stage, y.kind, y.microbatch, y.clock_mhz, y.start_s, y.duration_s));
    }
  }
}

std::string error_of(const std::string& text) {
  return lowgear::error_of([&] { (void)read_plan(text, "plan.json"); });
}

/// The small plan's text with one piece of it replaced.
std::string edited(const std::string& piece, const std::string& replacement) {
  std::string text = write_plan(small_plan());
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

TEST(WritePlan, HasTheAgreedForm) {
  EXPECT_EQ(write_plan(small_plan()), R"({
  "format": "lowgear.plan/1",
  "policy": "lowgear",
  "schedule": "1f1b",
  "gpu": "NVIDIA A100-SXM4-80GB",
  "microbatches": 1,
  "deadline_s": 0.5,
  "time_s": 0.4,
  "energy_j": 10.5,
  "lower_bound_j": 10,
  "gap_pct": 5,
  "clock_lead_s": 0.025,
  "switches": 2,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0.1},
      {"op":"backward","microbatch":0,"mhz":1200,"start_s":0.1,"duration_s":0.3}
    ]}
  ]
}
)");
}

TEST(WritePlan, StatesThatItsGpusAreSimulated) {
  Plan plan = small_plan();
  plan.simulated = true;
  const std::string text = write_plan(plan);
  EXPECT_THAT(text, HasSubstr("  \"origin\": \"simulated\",\n"));
  EXPECT_TRUE(read_plan(text, "plan.json").simulated);
  EXPECT_FALSE(read_plan(write_plan(small_plan()), "plan.json").simulated);
  EXPECT_THAT(error_of(edited("\"policy\"", "\"origin\": \"made up\", \"policy\"")),
              HasSubstr("unknown origin \"made up\""));
}

TEST(WritePlan, LeavesOutABoundThatWasNotComputed) {
  Plan plan = small_plan();
  plan.lower_bound_j.reset();
  const std::string text = write_plan(plan);
  EXPECT_EQ(text.find("lower_bound_j"), std::string::npos);
  EXPECT_EQ(text.find("gap_pct"), std::string::npos);
  EXPECT_FALSE(read_plan(text, "plan.json").lower_bound_j.has_value());
}

TEST(WritePlan, NamesVirtualStagesOfRanksThatRunSeveral) {
  Plan plan = small_plan();
  plan.ranks.push_back({{1, OpKind::forward, 0, 1000, 0, 1}, {3, OpKind::input_gradient, 0, 1000, 1, 1}});
  const std::string text = write_plan(plan);
  EXPECT_THAT(text, HasSubstr(R"({"op":"forward","microbatch":0,"mhz":1410,)"));
  EXPECT_THAT(text, HasSubstr(R"({"op":"forward","virtual_stage":1,"microbatch":0,"mhz":1000,)"));
  EXPECT_THAT(text, HasSubstr(R"({"op":"input_gradient","virtual_stage":3,"microbatch":0,"mhz":1000,)"));
  expect_equal(read_plan(text, "plan.json"), plan);
}

TEST(WritePlan, StaysJsonWithAnyName) {
  Plan plan = small_plan();
  plan.policy = "a\"b\\c\nd\x01";
  plan.schedule = "not utf-8: \xff";
  const Plan back = read_plan(write_plan(plan), "plan.json");
  EXPECT_EQ(back.policy, plan.policy);
  EXPECT_EQ(back.schedule, "not utf-8: \xEF\xBF\xBD");
}

TEST(WritePlan, RefusesFiguresThatAreNotFinite) {
  Plan plan = small_plan();
  plan.deadline_s = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)write_plan(plan), Error);
}

TEST(ReadPlan, GivesBackRandomPlansBitForBit) {
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  const auto real = [&](double limit) { return std::uniform_real_distribution<double>(0, limit)(random); };
  for (int round = 0; round < 50; ++round) {
    Plan plan = small_plan();
    plan.microbatches = 1 + below(20);
    plan.deadline_s = real(1e6);
    plan.time_s = real(1);
    plan.energy_j = real(1e15);
    plan.lower_bound_j = 1e-30 + real(1e-20);
    plan.ranks.assign(static_cast<std::size_t>(1 + below(4)), {});
    for (auto& ops : plan.ranks) {
      for (int i = below(30); i > 0; --i) {
        ops.push_back({below(8), kScheduledKinds.at(static_cast<std::size_t>(below(kScheduledKinds.size()))),
                       below(plan.microbatches), 1 + below(3000), real(1e6), real(1e-9)});
      }
    }
    expect_equal(read_plan(write_plan(plan), "plan.json"), plan);
  }
}

TEST(ReadPlan, TakesMembersInAnyOrderAndIgnoresOthers) {
  const std::string text = R"({"stages":[{"ops":[{"duration_s":1,"start_s":0,"mhz":900.0,"note":"x","microbatch":0,
    "op":"weight_gradient"}],"stage":0}],"switches":0,"energy_j":1,"time_s":1,"deadline_s":1,"microbatches":1,
    "schedule":"s","policy":"p","format":"lowgear.plan/1","comment":[1,2]})";
  const Plan plan = read_plan(text, "plan.json");
  ASSERT_EQ(plan.ranks.size(), 1U);
  ASSERT_EQ(plan.ranks[0].size(), 1U);
  EXPECT_EQ(plan.ranks[0][0].kind, OpKind::weight_gradient);
  EXPECT_EQ(plan.ranks[0][0].clock_mhz, 900);
}

TEST(ReadPlan, ReadsStartsThatContradictEachOther) {
  EXPECT_EQ(read_plan(edited("\"start_s\":0.1", "\"start_s\":0.01"), "plan.json").ranks[0][1].start_s, 0.01);
}

TEST(ReadPlan, RefusesAnotherFormat) {
  EXPECT_THAT(error_of(edited("lowgear.plan/1", "lowgear.plan/2")), HasSubstr("lowgear.plan/1"));
  EXPECT_THAT(error_of("[]"), StartsWith("plan.json"));
  EXPECT_THAT(error_of(""), StartsWith("plan.json"));
}

struct BadEdit {
  std::string piece;
  std::string replacement;
  std::string path;  ///< where the error points
};

void PrintTo(const BadEdit& bad, std::ostream* out) { *out << bad.replacement; }

class ReadPlanRefuses : public ::testing::TestWithParam<BadEdit> {};

TEST_P(ReadPlanRefuses, WithThePathOfTheValue) {
  const BadEdit& bad = GetParam();
  EXPECT_THAT(error_of(edited(bad.piece, bad.replacement)), StartsWith("plan.json: " + bad.path + ":"));
}

INSTANTIATE_TEST_SUITE_P(
    Plan, ReadPlanRefuses,
    ::testing::Values(BadEdit{"\"NVIDIA A100-SXM4-80GB\"", "\"\"", "$.gpu"},
                      BadEdit{"\"NVIDIA A100-SXM4-80GB\"", "7", "$.gpu"},
                      BadEdit{"\"microbatches\": 1", "\"microbatches\": 0", "$.microbatches"},
                      BadEdit{"\"microbatches\": 1", "\"microbatches\": 1e12", "$.microbatches"},
                      BadEdit{"\"microbatches\": 1", "\"microbatches\": \"1\"", "$.microbatches"},
                      BadEdit{"\"deadline_s\": 0.5", "\"deadline_s\": -1", "$.deadline_s"},
                      BadEdit{"\"time_s\": 0.4", "\"time_s\": 1e7", "$.time_s"},
                      BadEdit{"\"energy_j\": 10.5", "\"energy_j\": null", "$.energy_j"},
                      BadEdit{"\"lower_bound_j\": 10", "\"lower_bound_j\": 0", "$.lower_bound_j"},
                      BadEdit{"\"switches\": 2", "\"switches\": -2", "$.switches"},
                      BadEdit{"\"stage\": 0", "\"stage\": 1", "$.stages[0].stage"},
                      BadEdit{"\"forward\"", "\"sideward\"", "$.stages[0].ops[0].op"},
                      BadEdit{"\"microbatch\":0", "\"microbatch\":1", "$.stages[0].ops[0].microbatch"},
                      BadEdit{"\"mhz\":1200", "\"mhz\":0", "$.stages[0].ops[1].mhz"},
                      BadEdit{"\"mhz\":1200", "\"mhz\":1200.5", "$.stages[0].ops[1].mhz"},
                      BadEdit{"\"duration_s\":0.3", "\"duration_s\":-0.3", "$.stages[0].ops[1].duration_s"},
                      BadEdit{"\"start_s\":0.1", "\"virtual_stage\":-1,\"start_s\":0.1",
                              "$.stages[0].ops[1].virtual_stage"}));

TEST(ReadPlan, RefusesMissingMembers) {
  const Json whole = Json::parse(write_plan(small_plan()));
  for (const std::string member :
       {"format", "policy", "schedule", "microbatches", "deadline_s", "time_s", "energy_j", "switches", "stages"}) {
    Json json = whole;
    json.erase(member);
    EXPECT_THAT(error_of(json.dump()), HasSubstr(member));
  }
  for (const std::string member : {"op", "microbatch", "mhz", "start_s", "duration_s"}) {
    Json json = whole;
    json["stages"][0]["ops"][1].erase(member);
    EXPECT_THAT(error_of(json.dump()), HasSubstr("$.stages[0].ops[1]"));
  }
}

TEST(ReadPlan, RefusesAPlanWithoutStages) {
  Json json = Json::parse(write_plan(small_plan()));
  json["stages"] = Json::array();
  EXPECT_THAT(error_of(json.dump()), StartsWith("plan.json: $.stages:"));
}

TEST(ReadPlan, RefusesEveryTruncation) {
  const std::string text = write_plan(small_plan());
  for (std::size_t length = 0; length < text.size() - 2; ++length) {
    EXPECT_THAT(error_of(text.substr(0, length)), StartsWith("plan.json:")) << length;
  }
}

TEST(ReadPlan, RefusesTextBeyondItsLimit) {
  EXPECT_THAT(error_of(std::string(kMaxPlanBytes + 1, ' ')), HasSubstr("larger than any pipeline's"));
}

TEST(WritePlan, HasTheSettingsOfOps) {
  Plan plan = small_plan();
  const std::string without = write_plan(plan);
  EXPECT_EQ(without.find("setting"), std::string::npos);
  plan.ranks[0][1].setting = "attn=sm12;mlp=sm6";
  const std::string text = write_plan(plan);
  EXPECT_THAT(text, HasSubstr(R"("mhz":1200,"setting":"attn=sm12;mlp=sm6","start_s")"));
  const Plan read = read_plan(text, "plan.json");
  EXPECT_EQ(read.ranks[0][0].setting, "");
  EXPECT_EQ(read.ranks[0][1].setting, "attn=sm12;mlp=sm6");
  EXPECT_TRUE(has_settings(read));
  EXPECT_THAT(lowgear::error_of([&] { refuse_settings(read, "it"); }), StartsWith("it sets clocks alone"));
  EXPECT_FALSE(has_settings(read_plan(without, "plan.json")));
}

TEST(ReadPlan, RefusesSettingsThatAreNoNames) {
  EXPECT_THAT(error_of(edited(R"("mhz":1200)", R"("mhz":1200,"setting":"<script>")")), HasSubstr("setting"));
  EXPECT_THAT(error_of(edited(R"("mhz":1200)", R"("mhz":1200,"setting":7)")), HasSubstr("setting"));
}

}  // namespace
}  // namespace lowgear::plan
