#include "planning/steps/expert_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::steps {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kHeader = "step,replica,microbatch,layer,expert_tokens\n";

Lengths read(const std::string& rows, int ranks, int stages) {
  const std::vector<planner::PlanFolder::File> files{{"e.csv", kHeader + rows}};
  return read_expert_loads(files, ranks, stages);
}

TEST(ExpertLoads, AddTheFullestRankOfEachLayerUp) {
  // Ranks have experts 0, 1 and 2, 3. Layer 0: 5 and 9; layer 1: 12 and 2; layer 2 (stage 1): 7 and 7.
  const std::vector<planner::PlanFolder::File> files{{"rank-0.csv", kHeader + "4,0,0,0,1 4 4 5\n4,0,0,1,10 2 1 1\n"},
                                                     {"rank-1.csv", kHeader + "4,0,0,2,7 0 3 4\n"}};
  const Lengths lengths = read_expert_loads(files, 2, 2);
  ASSERT_EQ(lengths.steps.size(), 1U);
  EXPECT_EQ(lengths.stages, 2);
  EXPECT_EQ(lengths.steps[0].fault, "");
  // Of three layers on two stages, the first has two.
  EXPECT_THAT(lengths.steps[0].amounts, ElementsAre(Amounts{9 + 12, 0}, Amounts{7, 0}));
  EXPECT_THAT(lengths.steps[0].mean_tokens, ElementsAre(DoubleEq(7 + 7), DoubleEq(7)));
}

TEST(ExpertLoads, LayersAreOnTheStagesThatTheJobStates) {
  const std::string header = "step,replica,microbatch,layer,stage,expert_tokens\n";
  const std::vector<planner::PlanFolder::File> files{
      {"e.csv", header + "4,0,0,1,0,1 4\n4,0,0,2,1,2 3\n4,0,0,5,1,5 0\n"}};
  const Lengths lengths = read_expert_loads(files, 2, 2);
  EXPECT_THAT(lengths.steps[0].amounts, ElementsAre(Amounts{4, 0}, Amounts{3 + 5, 0}));
  EXPECT_THAT(lengths.doubts, IsEmpty());

  // Of six layers on three stages each has two, as the job had another pipeline.
  const Lengths divided = read_expert_loads(files, 2, 3);
  EXPECT_THAT(divided.steps[0].amounts, ElementsAre(Amounts{4, 0}, Amounts{3, 0}, Amounts{5, 0}));
  EXPECT_THAT(divided.doubts,
              ElementsAre(HasSubstr("is of a job with 2 stages: layers 0 to 5 are taken to be divided evenly among 3"),
                          HasSubstr("3 layers below the last have no loads, the first of them layer 0")));
  EXPECT_THAT(read("4,0,0,0,1 4\n4,0,0,1,2 3\n", 2, 2).doubts, ElementsAre(HasSubstr("states no stages")));
  EXPECT_THAT(read("4,0,0,0,1 4\n4,0,0,1,2 3\n", 2, 1).doubts, IsEmpty());

  const std::vector<planner::PlanFolder::File> mixed{files[0], {"f.csv", kHeader + "5,0,0,1,1 4\n"}};
  EXPECT_THROW((void)read_expert_loads(mixed, 2, 2), InputError);
  const std::vector<planner::PlanFolder::File> cut{{"f.csv", kHeader}, files[0]};
  EXPECT_EQ(read_expert_loads(cut, 2, 2).steps.size(), 1U);
}

TEST(ExpertLoads, ManyMicrobatchesAndLayersAreReadInOnePass) {
  // Of 60,000 microbatches the last alone has 20,000 layers.
  std::string rows;
  for (int i = 0; i < 20'000; ++i) rows += "0,0,59999," + std::to_string(3 * i) + ",3 4\n";
  const Lengths lengths = read(rows, 2, 1);
  EXPECT_EQ(lengths.steps[0].fault, "layer 0 of microbatch 0 of replica 0 is missing");
  EXPECT_EQ(lengths.steps[0].amounts.back().tokens, 20'000 * 4);
}

TEST(ExpertLoads, OneRankHasAllTokens) {
  const Lengths lengths = read("0,0,0,0,3 5 1 1\n", 1, 1);
  EXPECT_EQ(lengths.steps[0].amounts[0].tokens, 10);
  EXPECT_EQ(lengths.steps[0].mean_tokens[0], 10);
}

TEST(ExpertLoads, AStepThatLacksALayerHasAFault) {
  const Lengths lengths = read("0,0,0,0,3 5\n0,0,0,1,4 4\n1,0,0,0,3 5\n", 2, 1);
  EXPECT_EQ(lengths.steps[0].fault, "");
  EXPECT_EQ(lengths.steps[1].fault, "layer 1 of microbatch 0 of replica 0 is missing");
}

TEST(ExpertLoads, RefuseWhatCannotBe) {
  const auto refusal = [](const std::string& rows, int ranks = 2) {
    return error_of([&] { (void)read(rows, ranks, 1); });
  };
  EXPECT_THAT(refusal("0,0,0,0,3 x\n"), HasSubstr("e.csv:2:9: \"x\" is no number of tokens"));
  EXPECT_THAT(refusal("0,0,0,0,3 -1\n"), HasSubstr("e.csv:2:9"));
  EXPECT_THAT(refusal("0,0,0,0,3 4\n0,0,0,1,3 4 5 6\n"), HasSubstr("e.csv:3:9: has 4 experts, and rows before 2"));
  EXPECT_THAT(refusal("0,0,0,0,\n"), HasSubstr("has 0 experts"));
  EXPECT_THAT(refusal("0,0,0,0,3 4 5 6\n", 3), HasSubstr("4 experts cannot be divided among 3 ranks"));
  EXPECT_THAT(refusal("0,0,0,0,3 4\n0,0,0,0,3 4\n"), HasSubstr("e.csv:3:7: the same layer"));
  EXPECT_THAT(refusal("0,0,0,0,0 0\n"), HasSubstr("e.csv:2:9: no token chose an expert"));
  EXPECT_THAT(refusal("0,0,0,-1,3 4\n"), HasSubstr("e.csv:2:7"));
  EXPECT_THAT(refusal(""), HasSubstr("has no rows"));
  const std::string two_replicas = "0,0,0,0,3 4\n0,1,0,0,3 4\n";
  EXPECT_THAT(refusal(two_replicas + "1,0,0,0,3 4\n2,0,0,0,3 4\n"),
              HasSubstr("step 1 has loads of 1 replica, and others of 2: the job went on with another layout"));
  EXPECT_EQ(refusal(two_replicas + "1,0,0,0,3 4\n"), "no error");  // an interrupted step
  EXPECT_TRUE(is_expert_loads(kHeader, "e.csv"));
  EXPECT_FALSE(is_expert_loads("step,replica,microbatch,lengths\n", "l.csv"));
}

}  // namespace
}  // namespace lowgear::steps
