
#include "planning/profile/group_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/plausibility.h"
#include "planning/profile/profile_file.h"

namespace lowgear::profile {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// An op's time and energy at 1400 MHz; at 1000 MHz it takes 1.3 times as long, at 0.8 of the energy.
struct GroupOp {
  int stage;
  std::string instruction;
  double time_s;
  double energy_j;

  [[nodiscard]] bool is(int other_stage, std::string_view other) const {
    return stage == other_stage && instruction == other;
  }
};

std::vector<std::string> group_doubts(const std::vector<GroupOp>& ops) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const auto& [stage, instruction, time_s, energy_j] : ops) {
    csv += fmt::format("{0},{1},1400,{2},{3}\n{0},{1},1000,{4},{5}\n", stage, instruction, time_s, energy_j,
                       1.3 * time_s, 0.8 * energy_j);
  }
  return profile_doubts(read_profile_file(csv, "p.csv"), {.blocking_power_w = {}});
}

/// Of stages that all are as large, with times and energies of some multiplied.
std::vector<GroupOp> group_pipeline(int stages, const std::function<double(const GroupOp&)>& factor) {
  std::vector<GroupOp> ops;
  for (int stage = 0; stage < stages; ++stage) {
    for (GroupOp op : {GroupOp{stage, "forward", 0.05, 15}, GroupOp{stage, "backward", 0.1, 31}}) {
      const double by = factor(op);
      op.time_s *= by;
      op.energy_j *= by;
      ops.push_back(op);
    }
  }
  return ops;
}

TEST(CheckGroups, SaysNothingOfStagesThatAreNotEqual) {
  EXPECT_THAT(group_doubts(group_pipeline(4, [](const GroupOp& op) { return op.stage == 3 ? 2.5 : 1; })), IsEmpty());
}

TEST(CheckGroups, NamesAStageOfAnotherSize) {
  for (const int stages : {3, 4, 8}) {
    for (const int wrong : {0, 1, stages - 1}) {
      for (const double by : {1.0 / 3, 3.0}) {
        EXPECT_THAT(
            group_doubts(group_pipeline(stages, [&](const GroupOp& op) { return op.stage == wrong ? by : 1; })),
            Contains(AllOf(HasSubstr(fmt::format("stage {}: the forward takes", wrong)), HasSubstr("0.05 s (median)"),
                           HasSubstr("check the units of these rows, or balance the stages"))))
            << stages << wrong << by;
      }
    }
  }
}

TEST(CheckGroups, NamesAnOpThatIsLongOrShortForItsStage) {
  for (const double by : {0.5, 2.0}) {
    for (const std::string instruction : {"forward", "backward"}) {
      EXPECT_THAT(group_doubts(group_pipeline(4, [&](const GroupOp& op) { return op.is(2, instruction) ? by : 1; })),
                  ElementsAre(AllOf(StartsWith("p.csv:12: stage 2: the backward takes"),
                                    HasSubstr(", and that of the stages (median) 2 times"))))
          << by << instruction;
    }
  }
}

TEST(CheckGroups, NamesEnergiesThatOtherStagesDoNotHave) {
  for (const double by : {0.5, 1.5, 2.0}) {
    std::vector<GroupOp> ops = group_pipeline(4, [](const GroupOp&) { return 1; });
    for (GroupOp& op : ops) op.energy_j *= op.is(1, "backward") ? by : 1;
    EXPECT_THAT(group_doubts(ops), ElementsAre(AllOf(StartsWith("p.csv:8: stage 1: the backward draws"),
                                                     HasSubstr("times as much as in the other stages"))))
        << by;
    for (GroupOp& op : ops) op.energy_j *= op.is(1, "backward") ? 1 / by : 1;
    EXPECT_THAT(group_doubts(ops), IsEmpty());
    for (GroupOp& op : ops) op.energy_j *= op.instruction == "backward" ? by : 1;
    EXPECT_THAT(group_doubts(ops), ElementsAre(HasSubstr("times as much power as the forwards")));
  }
}

TEST(CheckGroups, NamesClocksThatAnOpLacks) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  const auto rows = [&](int stage, int from_mhz, int to_mhz) {
    for (const std::string instruction : {"forward", "backward"}) {
      for (int clock_mhz = from_mhz; clock_mhz >= to_mhz; clock_mhz -= 100) {
        const double time_s = 100.0 / clock_mhz * (instruction == "forward" ? 1 : 2);
        csv += fmt::format("{},{},{},{},{}\n", stage, instruction, clock_mhz, time_s, 300 * time_s);
      }
    }
  };
  const auto found = [&] { return profile_doubts(read_profile_file(csv, "p.csv"), {.blocking_power_w = {}}); };
  rows(0, 1400, 900);
  rows(1, 1400, 900);
  rows(2, 1400, 1200);  // each profiler ends at a clock of its own
  EXPECT_THAT(found(), IsEmpty());
  rows(3, 1200, 900);
  EXPECT_THAT(found(),
              ElementsAre(AllOf(HasSubstr("stage 3: the forward has no row at 2 of the clocks from 1400 to "
                                          "1300 MHz that most others have"),
                                HasSubstr("its full speed is taken to be that of 1200 MHz; measure these, too")),
                          HasSubstr("stage 3: the backward has no row")));
}

TEST(CheckGroups, NamesAStageInOtherUnits) {
  for (const int stages : {3, 4, 8}) {
    for (const double by : {1e-3, 1.0 / 30, 0.1, 10.0, 30.0}) {
      EXPECT_THAT(group_doubts(group_pipeline(stages, [by](const GroupOp& op) { return op.stage == 1 ? by : 1; })),
                  ElementsAre(AllOf(StartsWith("p.csv:6: stage 1: the forward takes"), HasSubstr("0.05 s (median)")),
                              StartsWith("p.csv:8: stage 1: the backward takes")))
          << stages << by;
    }
  }
}

TEST(CheckGroups, NamesBothOfTwoStages) {
  EXPECT_THAT(group_doubts(group_pipeline(2, [](const GroupOp& op) { return op.stage == 0 ? 1e-3 : 1; })),
              ElementsAre(AllOf(StartsWith("p.csv:6: stage 1: the forward takes 0.05 s at 1400 MHz (line 6), and that "
                                           "of stage 0 5e-05 s (line 2)"))));
}

TEST(CheckGroups, NamesAKindInOtherUnits) {
  for (const double by : {1e-3, 1.0 / 30, 1.0 / 3, 3.0, 30.0}) {
    const auto found =
        group_doubts(group_pipeline(4, [by](const GroupOp& op) { return op.instruction == "backward" ? by : 1; }));
    EXPECT_THAT(found, ElementsAre(AllOf(StartsWith(by < 1 ? "p.csv:8: stage 1: the backward takes"
                                                           : "p.csv:4: stage 0: the backward takes"),
                                         HasSubstr("times as long as the forward"), HasSubstr("in every stage"))))
        << by;
  }
}

TEST(CheckGroups, AllowsAFirstStageThatIsFrozenButForItsLastLayers) {
  std::vector<GroupOp> ops =
      group_pipeline(4, [](const GroupOp& op) { return op.stage == 1 && op.instruction == "backward" ? 0.05 : 1; });
  ops.erase(ops.begin() + 1);  // the backward of stage 0
  EXPECT_THAT(group_doubts(ops), IsEmpty());
}

TEST(CheckGroups, HoldsABackwardAgainstItsHalves) {
  const std::vector<GroupOp> whole = group_pipeline(1, [](const GroupOp&) { return 1; });
  std::vector<GroupOp> ops = whole;
  ops.push_back({0, "input_gradient", 0.048, 15});
  ops.push_back({0, "weight_gradient", 0.05, 15});
  EXPECT_THAT(group_doubts(ops), IsEmpty());
  ops.back() = {0, "weight_gradient", 0.25, 75};
  EXPECT_THAT(group_doubts(ops),
              ElementsAre(AllOf(StartsWith("p.csv:4: stage 0: the backward takes 0.1 s and 31 J at 1400 MHz"),
                                HasSubstr("its input and weight gradient together 0.298 s and 90 J"))));
}

TEST(CheckGroups, HoldsRecomputationsAgainstWhatTheyRepeat) {
  const std::vector<GroupOp> whole = group_pipeline(1, [](const GroupOp&) { return 1; });
  std::vector<GroupOp> ops = whole;
  ops.push_back({0, "recomputation", 0.052, 15});
  ops.push_back({0, "recomputing_backward", 0.155, 46});
  EXPECT_THAT(group_doubts(ops), IsEmpty());
  ops[2] = {0, "recomputation", 0.5, 150};
  EXPECT_THAT(group_doubts(ops), Contains(StartsWith("p.csv:6: stage 0: the recomputation takes 0.5 s and 150 J")));
  ops[2] = {0, "recomputation", 0.01, 3};
  ops[3] = {0, "recomputing_backward", 0.08, 25};
  EXPECT_THAT(group_doubts(ops), Contains(AllOf(StartsWith("p.csv:8: stage 0: the recomputing backward takes 0.08 s"),
                                                HasSubstr("the backward alone 0.1 s"))));
}

}  // namespace
}  // namespace lowgear::profile
