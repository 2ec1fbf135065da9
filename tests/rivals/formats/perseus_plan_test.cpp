#include "rivals/formats/perseus_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "planning/plan/pipelines.h"
#include "planning/schedule/generators.h"

namespace lowgear::formats {

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
  const schedule::PipelineDag dag = plan::pipeline(2, 2);
  const PerseusPlan integers = read_perseus_plan("[[1, 2, 3, 4], [5, 6, 7, 8]]", "freqs.py");
  EXPECT_THAT(clocks_for(integers, dag), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const PerseusPlan tuples = read_perseus_plan(
      "[[('forward',1),('forward',2),('backward',3),('backward',4)],"
      " [('forward',5),('backward',6),('forward',7),('backward',8)]]",
      "freqs.py");
  EXPECT_THAT(clocks_for(tuples, dag), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ClocksForPerseusPlan, InvertPerseusPlanOf) {
  const schedule::PipelineDag dag = plan::pipeline(3, 5);
  std::vector<int> clocks_mhz;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    clocks_mhz.push_back(1000 + static_cast<int>(op));
  }
  EXPECT_EQ(clocks_for(perseus_plan(dag, clocks_mhz), dag), clocks_mhz);
}

TEST(ClocksForPerseusPlan, RefuseWhatTheScheduleDoesNotRun) {
  const schedule::PipelineDag dag = plan::pipeline(2, 2);
  const auto error_with = [&](const std::string& text) -> std::string {
    return lowgear::error_of([&] { (void)clocks_for(read_perseus_plan(text, "freqs.py"), dag); });
  };
  EXPECT_THAT(error_with("[[1, 2, 3, 4]]"), HasSubstr("1 stages, but the schedule has 2"));
  EXPECT_THAT(error_with("[[1, 2, 3, 4], [5, 6, 7]]"), HasSubstr("stage 1 has 3 clocks, but the schedule runs 4"));
  EXPECT_THAT(error_with("[[1, ('backward', 2), 3, 4], [5, 6, 7, 8]]"), HasSubstr("stage 0, entry 1 is a backward"));
}

TEST(LiteralCursor, SkipsBlanksAndComments) {
  LiteralCursor cursor(" \t# the first [ is a comment's\r\n\f [ 1");
  EXPECT_TRUE(cursor.accept('['));
  EXPECT_FALSE(cursor.accept(']'));
  EXPECT_EQ(cursor.peek(), '1');
}

TEST(LiteralCursor, ACommentMayEndTheText) {
  LiteralCursor cursor("# no line ends here");
  cursor.skip_blank();
  EXPECT_TRUE(cursor.at_end());
  EXPECT_EQ(cursor.peek(), '\0');
}

TEST(LiteralCursor, DoesNotTakeTheEndForANul) {
  LiteralCursor cursor("");
  EXPECT_FALSE(cursor.accept('\0'));
}

TEST(LiteralCursor, MovesNoFurtherThanTheEnd) {
  LiteralCursor cursor("ab");
  cursor.move_to(7);
  EXPECT_EQ(cursor.position(), 2U);
  cursor.move_to(1);
  EXPECT_EQ(cursor.peek(), 'b');
}

using testing::ElementsAre;
using testing::HasSubstr;

std::string word(const std::vector<bool>& computes) {
  std::string text;
  for (const bool one : computes) text += one ? 'C' : '-';
  return text;
}

schedule::PipelineDag dag_of(int stages, int microbatches) {
  return build_dag(schedule::one_f_one_b_schedule(stages, microbatches));
}

std::string fault_of(const std::string& text, int stages, int microbatches) {
  return error_of([&] { (void)clocks_for(read_power_states(text, "0.sched.json"), dag_of(stages, microbatches)); });
}

/// Written out by hand from Merak's MergeP2PTrainSchedule: two stages, two microbatches.
TEST(MerakInstructions, AreThoseOfMergedMessages) {
  // load F send | load F send+recv B recv B | tied, gradients, step
  EXPECT_EQ(word(merak_instructions(0, 2, 2)), "-C--C-C-C---");
  // recv load F B send+recv load F B send | tied, gradients, step
  EXPECT_EQ(word(merak_instructions(1, 2, 2)), "--CC--CC----");
  EXPECT_EQ(word(merak_instructions(0, 1, 2)), "-CC-CC---") << "no neighbours";
}

/// The lengths of the artifact's files of four stages and 128 microbatches.
TEST(MerakInstructions, AreAsManyAsInThePublishedFiles) {
  EXPECT_EQ(merak_instructions(0, 4, 128).size(), 518U);
  EXPECT_EQ(merak_instructions(1, 4, 128).size(), 520U);
  EXPECT_EQ(merak_instructions(2, 4, 128).size(), 518U);
  EXPECT_EQ(merak_instructions(3, 4, 128).size(), 516U);
}

TEST(PowerStates, GiveTheClocksOfOps) {
  const std::string text =
      R"([{"rank":1,"power_states":[1000,1000,1000,900,900,900,1000,950,950,950,950,950]},)"
      R"({"rank":0,"power_states":[1410,1410,1410,1410,1300,1300,1200,1200,1100,1100,1100,1100]}])";
  ASSERT_TRUE(is_power_states(text));
  EXPECT_THAT(clocks_for(read_power_states(text, "2.sched.json"), dag_of(2, 2)),
              ElementsAre(1410, 1300, 1200, 1100, 1000, 900, 1000, 950));
}

TEST(PowerStates, OfRanksOfOneStageAreOne) {
  const std::string first = R"([1410,1410,1410,1410,1300,1300,1200,1200,1100,1100,1100,1100])";
  const std::string last = R"([1000,1000,1000,900,900,900,1000,950,950,950,950,950])";
  const auto four = [](const std::vector<std::string>& states) {
    std::string text = "[";
    for (std::size_t i = 0; i < states.size(); ++i) {
      text += (i == 0 ? "" : ",") + (R"({"rank":)" + std::to_string(i) + R"(,"power_states":)" + states[i] + "}");
    }
    return text + "]";
  };
  const auto expected = ElementsAre(1410, 1300, 1200, 1100, 1000, 900, 1000, 950);
  const auto clocks = [](const std::string& text) {
    return clocks_for(read_power_states(text, "2.sched.json"), dag_of(2, 2));
  };
  EXPECT_THAT(clocks(four({first, first, last, last})), expected);
  EXPECT_THAT(clocks(four({first, last, first, last})), expected);
  EXPECT_THAT(fault_of(four({first, last, last, first}), 2, 2), HasSubstr("ranks of a stage differ"));
  EXPECT_THAT(fault_of(four({first, last, first}), 2, 2), HasSubstr("3 ranks cannot belong to 2 stages"));
}

TEST(PowerStates, OfAnotherPipelineAreRefused) {
  const std::string one = R"([{"rank":0,"power_states":[9,1,1,1,1,1,1,1,1]}])";
  EXPECT_THAT(fault_of(one, 1, 2), HasSubstr("before it computes"));
  EXPECT_THAT(fault_of(one, 1, 3), HasSubstr("9 power states, but Merak's 1F1B has 12 instructions"));
  EXPECT_THAT(fault_of(R"([{"rank":0,"power_states":[5,5,6,7,6,6,6,6,6]}])", 1, 2), HasSubstr("at instruction 3"));
  const auto gpipe = build_dag(schedule::gpipe_schedule(2, 2));
  EXPECT_THROW((void)clocks_for(read_power_states(one, "x"), gpipe), InputError);
}

TEST(PowerStates, FaultsOfTheFileAreNamed) {
  for (const char* text : {"[]", "{}", R"([{"rank":1,"power_states":[1]}])", R"([{"rank":0,"power_states":[]}])",
                           R"([{"rank":0,"power_states":[1]},{"rank":0,"power_states":[1]}])",
                           R"([{"rank":0,"power_states":[0]}])", R"([{"rank":0,"power_states":[1.5]}])"}) {
    EXPECT_THROW((void)read_power_states(text, "0.sched.json"), InputError) << text;
  }
  EXPECT_FALSE(is_power_states("[[1410, 1410]]"));
  EXPECT_FALSE(is_power_states("[ "));
}

TEST(PowerStates, OfThePublishedRunChangeOnlyWhereMerakComputes) {
  const auto folder =
      std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus/runs/gpt3-xl_A100_pp4_mbs8_nmb128";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "NOT CHECKED against a published run: " << folder << " is absent";
  for (const int number : {0, 2, 20, 37}) {
    const std::string file = std::to_string(number) + ".sched.json";
    const auto clocks = clocks_for(read_power_states(read_file(folder / file), file), dag_of(4, 128));
    EXPECT_EQ(clocks.size(), 4U * 256);
    EXPECT_THAT(clocks, testing::Each(testing::AllOf(testing::Ge(1035), testing::Le(1410)))) << file;
  }
}

}  // namespace

}  // namespace lowgear::formats
