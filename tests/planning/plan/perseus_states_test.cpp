#include "planning/plan/perseus_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/schedule/generators.h"

namespace lowgear::plan {
namespace {

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
  try {
    (void)clocks_for(read_power_states(text, "0.sched.json"), dag_of(stages, microbatches));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
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
  EXPECT_THAT(fault_of(four({first, last, first}), 2, 2), HasSubstr("3 ranks cannot be of 2 stages"));
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
}  // namespace lowgear::plan
