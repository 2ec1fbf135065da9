#include "planning/profile/row_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "planning/profile/plausibility.h"
#include "planning/profile/profile_file.h"

namespace lowgear::profile {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Cell {
  int stage;
  const char* instruction;
  int clock_mhz;
  double time_s;
  double energy_j;
};

/// Two stages at three clocks, of which all rows are right: lines 2 to 13.
std::vector<Cell> right_cells() {
  std::vector<Cell> cells;
  for (const int stage : {0, 1}) {
    for (const auto& [instruction, factor] : {std::pair{"forward", 1.0}, std::pair{"backward", 2.0}}) {
      const double times = factor * (1 + 0.08 * stage);
      cells.push_back({stage, instruction, 1410, 0.05 * times, 18 * times});
      cells.push_back({stage, instruction, 1200, 0.05525 * times, 15.27 * times});
      cells.push_back({stage, instruction, 990, 0.06273 * times, 12.98 * times});
    }
  }
  return cells;
}

std::string csv_of(const std::vector<Cell>& cells) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const Cell& cell : cells) {
    csv += fmt::format("{},{},{},{},{}\n", cell.stage, cell.instruction, cell.clock_mhz, cell.time_s, cell.energy_j);
  }
  return csv;
}

/// Doubts of a profile in a file, or its refusal.
std::vector<std::string> doubts(const std::string& csv, const std::vector<double>& blocking_power_w = {80}) {
  std::vector<std::string> found;
  const std::string refusal = error_of(
      [&] { found = profile_doubts(read_profile_file(csv, "p.csv"), {.blocking_power_w = blocking_power_w}); });
  if (refusal != "no error") found = {"refused: " + refusal};
  return found;
}

/// With one row changed.
std::vector<std::string> doubts_with(std::size_t row, const std::function<void(Cell&)>& change) {
  std::vector<Cell> cells = right_cells();
  change(cells.at(row));
  return doubts(csv_of(cells));
}

TEST(CheckRows, SaysNothingOfRowsThatAreRight) { EXPECT_THAT(doubts(csv_of(right_cells())), IsEmpty()); }

TEST(CheckRows, RefusesARowThatNoGpuCanHaveMeasuredWithItsLine) {
  EXPECT_THAT(doubts_with(1, [](Cell& cell) { cell.energy_j /= 1000; }),
              ElementsAre(AllOf(StartsWith("refused: p.csv:3: stage 0 forward at 1200 MHz draws 0.276"),
                                HasSubstr("less than any GPU draws that computes"))));
  EXPECT_THAT(doubts_with(3, [](Cell& cell) { cell.energy_j *= 1000; }),
              ElementsAre(AllOf(StartsWith("refused: p.csv:5: stage 0 backward at 1410 MHz draws 360000 W (36000 J in "
                                           "0.1 s), more than any GPU draws"),
                                HasSubstr("measure it again or remove the row"))));
  EXPECT_THAT(doubts_with(0, [](Cell& cell) { cell.time_s *= 10; }),
              ElementsAre(StartsWith("refused: p.csv:2: stage 0 forward at 1410 MHz takes 0.5 s, and 0.05525 s at 1200 "
                                     "MHz (line 3): a higher clock makes no op slower")));
  EXPECT_THAT(doubts_with(2, [](Cell& cell) { cell.time_s /= 10; }),
              ElementsAre(StartsWith("refused: p.csv:4: stage 0 forward at 990 MHz takes 0.006273 s")));
}

TEST(CheckRows, NamesTheRowThatContradictsItsNeighbours) {
  for (std::size_t row = 0; row < right_cells().size(); ++row) {
    const auto line = [row](const char* start) { return StartsWith(fmt::format("{}p.csv:{}: ", start, row + 2)); };
    for (const double factor : {3.0, 1 / 3.0}) {
      EXPECT_THAT(doubts_with(row, [&](Cell& cell) { cell.time_s *= factor; }), ::testing::Contains(line("")))
          << row << factor;
      EXPECT_THAT(doubts_with(row, [&](Cell& cell) { cell.energy_j *= factor; }), ElementsAre(line("")))
          << row << factor;
    }
    for (const double factor : {10.0, 0.1}) {
      EXPECT_THAT(doubts_with(row, [&](Cell& cell) { cell.time_s *= factor; }), ElementsAre(line("refused: ")))
          << row << factor;
    }
  }
}

TEST(CheckRows, NamesClocksAtWhichEveryOpIsTooFast) {
  std::vector<Cell> cells = right_cells();
  for (Cell& cell : cells) {
    if (cell.clock_mhz == 1200) cell.time_s *= 0.9;
  }
  const std::vector<std::string> found = doubts(csv_of(cells));
  ASSERT_EQ(found.size(), 4);
  EXPECT_THAT(found.front(), AllOf(StartsWith("p.csv:3: stage 0 forward at 1200 MHz takes 0.04972 s"),
                                   HasSubstr("no op gains more than the clock does")));
}

TEST(CheckRows, ListsOnlySomeOfVeryManyRows) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 9; ++stage) {
    for (const char* instruction : {"forward", "backward"}) {
      csv += fmt::format("{0},{1},1400,0.12,36\n{0},{1},1200,0.1,30\n", stage, instruction);
    }
  }
  const std::vector<std::string> found = doubts(csv);
  ASSERT_EQ(found.size(), 9);
  EXPECT_EQ(found.back(), "10 more rows of the profile are in doubt");
}

TEST(CheckRows, FoldsManyRowsAboveTheLimitIntoOneLine) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 9; ++stage) {
    for (const char* instruction : {"forward", "backward"}) {
      csv += fmt::format("{0},{1},1410,0.1,{2}\n{0},{1},1200,0.11,33\n{0},{1},990,0.13,36\n", stage, instruction,
                         stage == 3 ? 48 : 47);
    }
  }
  const std::vector<std::string> found =
      profile_doubts(read_profile_file(csv, "p.csv"), {.gpu = NamedPowerLimit{"A100", 400}});
  EXPECT_THAT(found,
              ElementsAre(AllOf(StartsWith("p.csv: 18 rows draw 470 to 480 W, more than the power limit of A100"),
                                HasSubstr("the most at stage 3 "))));
}

TEST(CheckRows, FoldsManyRowsBelowWaitingIntoOneLine) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 9; ++stage) {
    csv += fmt::format("{0},forward,1410,0.1,30\n{0},forward,990,0.13,{1}\n{0},backward,1410,0.2,60\n", stage,
                       stage == 3 ? 6.5 : 7.8);
  }
  EXPECT_THAT(doubts(csv, {80}), ElementsAre(AllOf(StartsWith("p.csv: 9 rows draw 50 to 60 W, less than the 80 W of"),
                                                   HasSubstr("the least at stage 3 forward, 990 MHz"))));
}

TEST(CheckRows, NamesKilojoules) {
  std::vector<Cell> cells = right_cells();
  for (Cell& cell : cells) cell.energy_j /= 1000;
  EXPECT_THAT(doubts(csv_of(cells)), ElementsAre(HasSubstr("energies look like kilojoules")));
}

TEST(CheckRows, HoldsRowsAgainstWaiting) {
  const std::string csv = "stage,instruction,frequency,time,energy\n0,forward,1400,0.1,30\n0,backward,1400,0.2,12\n";
  EXPECT_THAT(doubts(csv, {80}), ElementsAre(AllOf(StartsWith("p.csv:3: stage 0 backward at 1400 MHz draws 60 W"),
                                                   HasSubstr("less than the 80 W of a GPU that waits")),
                                             HasSubstr("the backwards draw 0.2 times as much power")));
  EXPECT_THAT(doubts(csv, {0}), ElementsAre(StartsWith("a blocking power of 0 W"),
                                            HasSubstr("the backwards draw 0.2 times as much power")));
}

TEST(CheckRows, HoldsAllPowersAgainstWaiting) {
  std::vector<Cell> cells = right_cells();
  for (Cell& cell : cells) cell.energy_j *= 8;
  EXPECT_THAT(doubts(csv_of(cells), {80}), ::testing::Contains(HasSubstr("times the 80 W of a GPU that waits")));
  EXPECT_THAT(doubts(csv_of(cells), {200}), ElementsAre(HasSubstr("more than most GPUs")));
}

TEST(CheckRows, HoldsAnOpAgainstTheOthersAtItsClock) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage) {
    csv += fmt::format("{0},forward,1400,0.1,30\n{0},backward,1400,{1},{2}\n", stage, stage == 2 ? 20 : 0.2,
                       stage == 1 ? 300 : (stage == 2 ? 6000 : 60));
  }
  EXPECT_THAT(doubts(csv), ElementsAre(AllOf(StartsWith("p.csv:5: stage 1 backward"), HasSubstr("1500 W")),
                                       AllOf(StartsWith("p.csv:7: stage 2: the backward takes 20 s at 1400 MHz"),
                                             HasSubstr("0.2 s (median)")),
                                       HasSubstr("200 times as long as the forward"),
                                       HasSubstr("5 times as much as in the other stages")));
}

TEST(CheckRows, NamesARowWhoseTimeAndEnergyAreAThousandthOfTheirs) {
  for (std::size_t row = 0; row < right_cells().size(); ++row) {
    EXPECT_THAT(doubts_with(row,
                            [](Cell& cell) {
                              cell.time_s /= 1000;
                              cell.energy_j /= 1000;
                            }),
                ElementsAre(StartsWith(fmt::format("refused: p.csv:{}: ", row + 2))));
  }
}

TEST(CheckRows, HoldsPowersOfOpsAtClocksOfTheirOwnAgainstAllRows) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy\n0,forward,1400,0.1,30\n0,backward,1300,0.2,55\n"
                     "1,forward,1200,0.1,250\n1,backward,1100,0.2,45\n"),
              ElementsAre(AllOf(StartsWith("p.csv:4: stage 1 forward at 1200 MHz draws 2500 W"),
                                HasSubstr("the ops at 1400 MHz 300 W (median)"))));
}

TEST(CheckRows, ComparesSettingsThatHaveARowEach) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy,setting\n0,forward,1400,0.1,30,a\n"
                     "0,forward,1300,0.00011,0.031,b\n0,forward,1200,0.11,29,c\n0,backward,1400,0.2,60,\n"),
              ElementsAre(AllOf(StartsWith("p.csv:3: stage 0 forward at 1300 MHz with setting b takes 0.00011 s"),
                                HasSubstr("the op's settings 0.1 s (median, at 1400 MHz (line 2))"))));
}

TEST(CheckRows, DoubtsUnitsOfOpsThatAreAllTooShort) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy\n0,forward,1400,5e-05,0.015\n"
                     "0,backward,1400,0.0001,0.03\n"),
              ElementsAre(AllOf(StartsWith("check the units of the profile: an op takes 7.07e-05 s (median)"))));
}

TEST(CheckRows, ChecksEveryRankBeforeTheirMean) {
  const std::string header = "stage,instruction,frequency,time,energy,rank\n";
  std::string csv = header;
  for (int rank = 0; rank < 16; ++rank) {
    csv += fmt::format("0,forward,1400,0.1,{},{}\n0,backward,1400,0.2,60,{}\n", rank == 3 ? 900 : 30, rank, rank);
  }
  EXPECT_THAT(doubts(csv), ElementsAre(StartsWith("refused: p.csv:8: stage 0 forward at 1400 MHz draws 9000 W")));
}

TEST(CheckRows, ComparesOnlyRowsOfOneSetting) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy,setting\n"
                     "0,forward,1400,0.1,30,a\n0,forward,1200,0.3,60,b\n0,forward,1200,0.11,29,a\n"
                     "0,backward,1400,0.1,30,\n"),
              IsEmpty());
}

TEST(CheckRows, LeavesUnitsThatAreTooShortToMeasure) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy\n0,forward,1400,0.1,30\n"
                     "0,input_gradient,1400,1e-6,1e-6\n0,input_gradient,1200,1e-6,1e-6\n"
                     "0,weight_gradient,1400,0.1,30\n"),
              IsEmpty());
}

TEST(CheckRows, ToleratesWhatAPowerLimitDoes) {
  EXPECT_THAT(doubts("stage,instruction,frequency,time,energy\n"
                     "0,forward,1980,0.1,70\n0,forward,1700,0.1,70\n0,forward,1400,0.12,60\n0,forward,1100,0.15,55\n"
                     "0,backward,1980,0.1,70\n"),
              IsEmpty());
}

using testing::HasSubstr;

TEST(Setting, IsANameThatPassesThroughEveryFormat) {
  for (const std::string good : {"", "sm12", "attn=sm12;mlp=sm6", "pl:300", "0.5", "A_b-c/d@e+f"}) {
    EXPECT_FALSE(problem_with_setting(good).has_value()) << good;
  }
  for (const std::string bad :
       {" ", "=SUM(A1)", "-x", "@x", "a b", "a,b", "a\"b", "a\nb", "<b>", "sm\xc3\xa9", "a'b"}) {
    EXPECT_THAT(problem_with_setting(bad).value_or(""), HasSubstr("not allowed")) << bad;
  }
}

TEST(Setting, HasALongestLength) {
  EXPECT_FALSE(problem_with_setting(std::string(kMaxSettingBytes, 'a')).has_value());
  EXPECT_THAT(problem_with_setting(std::string(kMaxSettingBytes + 1, 'a')).value_or(""), HasSubstr("longer than"));
}

}  // namespace

}  // namespace lowgear::profile
