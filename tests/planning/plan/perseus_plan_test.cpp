#include "planning/plan/perseus_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/plan/pipelines.h"

namespace lowgear::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Entry = PerseusPlan::Entry;

constexpr auto kNoKind = std::nullopt;

std::string perseus_error_of(const std::string& text) {
  return lowgear::error_of([&] { (void)read_perseus_plan(text, "freqs.py"); });
}

TEST(ReadPerseusPlan, ReadsTheArtifactsIntegers) {
  const PerseusPlan plan = read_perseus_plan(
      "[\n[1095, 1080],\n[1410, 1395],\n]\n# Iteration 0: cost change 0.23 \n# Iteration 0: total cost 34.5 \n",
      "freqs.py");
  EXPECT_THAT(plan.stages, ElementsAre(ElementsAre(Entry{kNoKind, 1095}, Entry{kNoKind, 1080}),
                                       ElementsAre(Entry{kNoKind, 1410}, Entry{kNoKind, 1395})));
}

TEST(ReadPerseusPlan, ReadsZeusTuples) {
  const PerseusPlan plan = read_perseus_plan(
      "[\n[('forward', 1410), (\"backward\", 1200)],\n]\n# Iteration 3 cost change: 0.1\n", "freqs.py");
  EXPECT_THAT(plan.stages, ElementsAre(ElementsAre(Entry{OpKind::forward, 1410}, Entry{OpKind::backward, 1200})));
}

TEST(ReadPerseusPlan, ReadsWhateverPythonWouldWithinThoseForms) {
  const PerseusPlan expected{{{{kNoKind, 1}, {kNoKind, 2}}, {}, {{OpKind::forward, 3}}}};
  EXPECT_EQ(read_perseus_plan("[[1,2],[],[('forward',3)]]", "freqs.py"), expected);
  EXPECT_EQ(read_perseus_plan("# [[[\r\n[ [1 ,\t2,], # 7\r\n [ ] ,[ ( 'forward' , 3 , ) ] ]\r\n\r\n#", "freqs.py"),
            expected);
}

struct BadPlan {
  std::string text;
  std::string where;
};

void PrintTo(const BadPlan& bad, std::ostream* out) { *out << bad.where; }

class ReadPerseusPlanRefuses : public ::testing::TestWithParam<BadPlan> {};

TEST_P(ReadPerseusPlanRefuses, WithLineAndColumn) {
  EXPECT_THAT(perseus_error_of(GetParam().text), StartsWith("freqs.py:" + GetParam().where + ": "));
}

INSTANTIATE_TEST_SUITE_P(
    Plan, ReadPerseusPlanRefuses,
    ::testing::Values(BadPlan{"", "1:1"}, BadPlan{"# only a comment", "1:17"}, BadPlan{"[]", "1:3"},
                      BadPlan{"[1410]", "1:2"}, BadPlan{"[[1410]", "1:8"}, BadPlan{"[[1410,\n1395,\n 13", "3:4"},
                      BadPlan{"[[1410 1395]]", "1:8"}, BadPlan{"[[1410.5]]", "1:7"}, BadPlan{"[[-1]]", "1:3"},
                      BadPlan{"[[0]]", "1:3"}, BadPlan{"[[99999999999999999999]]", "1:3"}, BadPlan{"[[,1]]", "1:3"},
                      BadPlan{"[[1,,2]]", "1:5"}, BadPlan{"[[1]]]", "1:6"}, BadPlan{"[[1]]\n[[2]]", "2:1"},
                      BadPlan{"[[('forward')]]", "1:13"}, BadPlan{"[[('load', 1410)]]", "1:4"},
                      BadPlan{"[[('forward', 1, 2)]]", "1:18"}, BadPlan{"[[('forward, 1)]]", "1:4"},
                      BadPlan{"[[('forward\", 1)]]", "1:4"}, BadPlan{"[[(forward, 1)]]", "1:4"},
                      BadPlan{"[[[1410]]]", "1:3"}, BadPlan{"[[__import__('os')]]", "1:3"}));

TEST(ReadPerseusPlan, NamesTheUnknownInstructionInOneLine) {
  EXPECT_THAT(perseus_error_of("[[('load', 1410)]]"), HasSubstr("load"));
  EXPECT_EQ(perseus_error_of("[[('lo\x01"
                             "ad', 1410)]]")
                .find('\x01'),
            std::string::npos);
}

TEST(ReadPerseusPlan, DoesNotRecurseIntoDeepNesting) {
  EXPECT_THAT(perseus_error_of(std::string(1'000'000, '[')), StartsWith("freqs.py:1:3: "));
}

TEST(ReadPerseusPlan, RefusesTextBeyondItsLimit) {
  EXPECT_THAT(perseus_error_of(std::string(kMaxPerseusPlanBytes + 1, ' ')), HasSubstr("larger than any pipeline's"));
}

TEST(WritePerseusPlan, HasTheArtifactsForm) {
  const PerseusPlan plan{{{{OpKind::forward, 1095}, {OpKind::backward, 1080}}, {{kNoKind, 1410}}}};
  EXPECT_EQ(write_perseus_plan(plan, {.iteration = 7,
                                      .cost_change_j = 0.23088760126349683,
                                      .total_cost_j = 3423.8839023275154,
                                      .refined_cost_j = 5736.362622327515}),
            "[\n[1095, 1080],\n[1410],\n]\n"
            "# Iteration 7: cost change 0.23088760126349683 \n"
            "# Iteration 7: total cost 3423.8839023275154 \n"
            "# Iteration 7: refined cost 5736.362622327515 \n");
}

TEST(WritePerseusPlan, HasZeusForm) {
  const PerseusPlan plan{{{{OpKind::forward, 1095}, {OpKind::backward, 1080}}}};
  const std::string text = write_perseus_plan(
      plan, {.iteration = 7, .cost_change_j = 0.5, .total_cost_j = 2, .refined_cost_j = 3.25}, PerseusDialect::zeus);
  EXPECT_EQ(text,
            "[\n[('forward', 1095), ('backward', 1080)],\n]\n"
            "# Iteration 7 cost change: 0.5\n# Iteration 7 total cost: 2\n# Iteration 7 total cost with P2P: 3.25\n");
  EXPECT_EQ(read_perseus_plan(text, "freqs.py"), plan);
}

TEST(WritePerseusPlan, RefusesTuplesOfUnknownInstructions) {
  EXPECT_THROW((void)write_perseus_plan({{{{kNoKind, 1095}}}}, {}, PerseusDialect::zeus), Error);
}

TEST(ClocksForPerseusPlan, FollowTheOrderOfEachRank) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  const PerseusPlan integers = read_perseus_plan("[[1, 2, 3, 4], [5, 6, 7, 8]]", "freqs.py");
  EXPECT_THAT(clocks_for(integers, dag), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const PerseusPlan tuples = read_perseus_plan(
      "[[('forward',1),('forward',2),('backward',3),('backward',4)],"
      " [('forward',5),('backward',6),('forward',7),('backward',8)]]",
      "freqs.py");
  EXPECT_THAT(clocks_for(tuples, dag), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ClocksForPerseusPlan, InvertPerseusPlanOf) {
  const schedule::PipelineDag dag = pipeline(3, 5);
  std::vector<int> clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    clocks_mhz.push_back(1000 + static_cast<int>(op));
  }
  EXPECT_EQ(clocks_for(perseus_plan(dag, clocks_mhz), dag), clocks_mhz);
}

TEST(ClocksForPerseusPlan, RefuseWhatTheScheduleDoesNotRun) {
  const schedule::PipelineDag dag = pipeline(2, 2);
  const auto error_with = [&](const std::string& text) -> std::string {
    return lowgear::error_of([&] { (void)clocks_for(read_perseus_plan(text, "freqs.py"), dag); });
  };
  EXPECT_THAT(error_with("[[1, 2, 3, 4]]"), HasSubstr("1 stages, but the schedule has 2"));
  EXPECT_THAT(error_with("[[1, 2, 3, 4], [5, 6, 7]]"), HasSubstr("stage 1 has 3 clocks, but the schedule runs 4"));
  EXPECT_THAT(error_with("[[1, ('backward', 2), 3, 4], [5, 6, 7, 8]]"), HasSubstr("stage 0, entry 1 is a backward"));
}

}  // namespace
}  // namespace lowgear::plan
