#include "planning/profile/profile_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/units.h"
#include "planning/profile/profile_text.h"

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kTwoStages =
    "0,forward,1410,0.1,30\n0,backward,1410,0.2,60\n1,forward,1410,0.1,30\n1,backward,1410,0.2,60\n";

std::string read_error_of(const std::string& rows) {
  return error_of([&] { (void)read_profile(rows); });
}

TEST(ReadProfileFile, WarnsOfPredictedRowsAndKeepsTheirMark) {
  const std::string csv =
      "stage,instruction,frequency,time,energy,origin,time_error,energy_error\n"
      "0,forward,1410,0.1,30,measured,,\n0,forward,1200,0.11,28,predicted,0.01,1.5\n"
      "0,backward,1410,0.2,60,measured,,\n0,backward,1200,0.22,56,predicted,0.02,3\n";
  const ProfileFile file = read_profile_file(csv, "p.csv");
  EXPECT_THAT(file.predicted, ElementsAre(PredictedRow{{0, OpKind::forward, 1200}, 0.01, 1.5},
                                          PredictedRow{{0, OpKind::backward, 1200}, 0.02, 3}));
  EXPECT_THAT(file.doubts, ElementsAre(HasSubstr("p.csv: 2 of 4 rows are predicted, not measured")));
  EXPECT_EQ(write_profile_file(file), csv);
  EXPECT_THAT(error_of([&] {
                (void)read_profile_file(
                    "stage,instruction,frequency,time,energy,origin\n0,forward,1410,0.1,30,guessed\n"
                    "0,backward,1410,0.2,60,\n",
                    "p.csv");
              }),
              AllOf(HasSubstr("p.csv:2:"), HasSubstr("unknown origin \"guessed\"")));
  EXPECT_THAT(error_of([&] {
                (void)read_profile_file(
                    "stage,instruction,frequency,time,energy,origin,time_error\n0,forward,1410,0.1,30,predicted,-1\n"
                    "0,backward,1410,0.2,60,,\n",
                    "p.csv");
              }),
              HasSubstr("p.csv:2:33: time_error -1 is not in 0 to"));
}

TEST(ReadProfileFile, WarnsOfSimulatedRowsAndKeepsTheirMark) {
  const std::string header = "stage,instruction,frequency,time,energy,origin";
  const std::string rows = "\n0,forward,1410,0.1,30,simulated\n0,backward,1410,0.2,60,simulated\n";
  ProfileFile file = read_profile_file(header + rows, "p.csv");
  EXPECT_TRUE(file.simulated);
  EXPECT_THAT(file.doubts, ElementsAre(HasSubstr("p.csv: 2 of 2 rows are simulated, not measured")));
  EXPECT_EQ(write_profile_file(file), header + rows);
  file.predicted = {{{0, OpKind::backward, 1410}, 0.01, 0}};
  EXPECT_EQ(
      write_profile_file(file),
      header + ",time_error,energy_error\n0,forward,1410,0.1,30,simulated,,\n0,backward,1410,0.2,60,predicted,0.01,\n");
}

TEST(ReadProfileFile, DoubtsAFileThatWasCutOff) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 2; ++stage) {
    for (const int clock_mhz : {1400, 1300, 1200, 1100}) {
      for (const char* kind : {"forward", "backward"}) {
        csv += fmt::format("{},{},{},{},21.5\n", stage, kind, clock_mhz, 140.0 / clock_mhz);
      }
    }
  }
  EXPECT_THAT(read_profile_file(csv, "p.csv").doubts, IsEmpty());
  EXPECT_THAT(read_profile_file(csv.substr(0, csv.size() - 2), "p.csv").doubts,
              ElementsAre(AllOf(StartsWith("p.csv: "), HasSubstr("in the middle of a number"))));
  const std::string without_last = csv.substr(0, csv.rfind('\n', csv.size() - 2) + 1);
  EXPECT_THAT(read_profile_file(without_last, "p.csv").doubts,
              ElementsAre(HasSubstr("the last stage, 1, has 3 rows of backward, and each other stage 4")));
}

TEST(ReadProfileFile, ReadsStagesKindsAndClocks) {
  const StageProfile profile = read_profile(
      "1,forward,1200,0.2,20\n0,forward,1410,0.1,30\n0,backward,1410,0.3,60.5\n1,backward,1200,0.4,50\n"
      "1,forward,1410,0.11,31\n");
  EXPECT_EQ(profile.stages(), 2);
  EXPECT_EQ(clocks_of(profile, 1, OpKind::forward), (std::vector{1410, 1200}));
  EXPECT_EQ(profile.at_clock(0, OpKind::backward, 1410).energy_j, 60.5);
  EXPECT_EQ(profile.at_clock(0, OpKind::backward, 1410).time_s, 0.3);
}

TEST(ReadProfileFile, AcceptsWhatSpreadsheetsMakeOfIt) {
  const std::string text =
      "\xEF\xBB\xBF\"energy\" ,time, frequency,instruction,stage,note\r\n"
      "\r\n"
      "30, 0.1 ,\"1410\",forward,0,\"as, measured\"\r\n"
      "60 ,3e-1,1410.0,backward,0.0,\t";
  const StageProfile profile = read_profile_file(text, "p.csv").profile;
  EXPECT_EQ(profile.stages(), 1);
  EXPECT_EQ(profile.at_clock(0, OpKind::forward, 1410).energy_j, 30);
  EXPECT_EQ(profile.at_clock(0, OpKind::backward, 1410).time_s, 0.3);
}

TEST(ReadProfileFile, SkipsTheLoadInstructionOfMerak) {
  const StageProfile profile =
      read_profile("0,load,1410,0,0\n0,forward,1410,0.1,30\n9,load,1410,1,1\n0,backward,1410,0.1,30\n");
  EXPECT_EQ(profile.stages(), 1);
}

TEST(ReadProfileFile, ReadsOpsThatWereMeasuredSplit) {
  const StageProfile profile = read_profile(
      "0,forward,1410,0.1,30\n0,input_gradient,1410,0.1,30\n0,weight_gradient,1410,0.1,30\n"
      "1,forward,1410,0.1,30\n1,backward,1410,0.1,30\n");
  EXPECT_TRUE(profile.has(0, OpKind::weight_gradient));
  EXPECT_FALSE(profile.has(0, OpKind::backward));
}

TEST(ReadProfileFile, NamesBothLinesOfADuplicate) {
  EXPECT_EQ(read_error_of("0,forward,1410,0.1,30\n0,backward,1410,0.1,30\n0,forward,1410.0,0.2,20\n"),
            "p.csv:4: stage 0 forward at 1410 MHz is measured in line 2 already; keep the mean of repeated "
            "measurements, or add the column rank where several ranks of the stage measured them");
}

constexpr std::string_view kRankHeader = "rank,dp_rank,pp_rank,tp_rank,stage,instruction,frequency,time,energy\n";

TEST(ReadProfileFile, MergesTheRanksOfAStage) {
  std::string text(kRankHeader);
  text +=
      "0,0,0,0,0,forward,1410,0.1,20\n1,0,0,1,0,forward,1410,0.12,22\n"
      "0,0,0,0,0,forward,1200,0.2,18\n1,0,0,1,0,forward,1200,0.19,19\n"
      "0,0,0,0,0,forward,990,0.3,17\n"  // where rank 1 has stopped
      "0,0,0,0,0,backward,1410,0.2,40\n1,0,0,1,0,backward,1410,0.2,44\n";
  const StageProfile profile = read_profile_file(text, "profile.csv").profile;
  ASSERT_EQ(profile.measurements(0, OpKind::forward).size(), 2U);
  EXPECT_EQ(profile.at_clock(0, OpKind::forward, 1410).time_s, 0.12);
  EXPECT_EQ(profile.at_clock(0, OpKind::forward, 1410).energy_j, 21);
  EXPECT_EQ(profile.at_clock(0, OpKind::forward, 1200).time_s, 0.2);
  EXPECT_EQ(profile.at_clock(0, OpKind::backward, 1410).energy_j, 42);
}

TEST(ReadProfileFile, RefusesRanksThatContradictEachOther) {
  const auto refusal = [](const std::string& rows) {
    return error_of([&] { (void)read_profile_file(std::string(kRankHeader) + rows, "profile.csv"); });
  };
  EXPECT_THAT(refusal("0,0,0,0,0,forward,1410,0.1,20\n0,0,0,0,0,forward,1410,0.1,20\n"),
              HasSubstr("in line 2 already"));
  EXPECT_THAT(refusal("0,0,0,0,0,forward,1410,0.1,20\n1,0,0,1,0,forward,1200,0.1,20\n"),
              HasSubstr("the 2 ranks of stage 0 forward have no clock in common"));
}

TEST(ReadProfileFile, SaysHowToGetAnEnergyThatIsNotKnown) {
  EXPECT_THAT(error_of([] {
                (void)read_profile_file("stage,instruction,frequency,time,energy\n0,forward,1410,0.1,\n",
                                        "profile.csv");
              }),
              AllOf(HasSubstr("profile.csv:2:"), HasSubstr("blocking_power_w")));
}

TEST(ReadProfileFile, RefusesValuesAtTheirCells) {
  EXPECT_EQ(read_error_of("0,forward,1410,0,30\n"),
            "p.csv:2:16: time 0 s is not in 1e-12 to 1000000; measure it again or remove the row");
  EXPECT_THAT(read_error_of("0,forward,1410,-0.1,30\n"), StartsWith("p.csv:2:16: time -0.1 s"));
  EXPECT_THAT(read_error_of("0,forward,1410,NaN,30\n"),
              StartsWith("p.csv:2:16: time: expected a number, found \"NaN\""));
  EXPECT_THAT(read_error_of("0,forward,1410,,30\n"),
              StartsWith("p.csv:2:16: time: expected a number, found an empty cell"));
  EXPECT_THAT(read_error_of("0,forward,1410,1e7,30\n"), StartsWith("p.csv:2:16: time 10000000 s"));
  EXPECT_THAT(read_error_of("0,forward,1410,0.1,0\n"), StartsWith("p.csv:2:20: energy 0 J is not above 0"));
  EXPECT_THAT(read_error_of("0,forward,1410,0.1,inf\n"),
              StartsWith("p.csv:2:20: energy: expected a number, found \"inf\""));
  EXPECT_THAT(read_error_of("0,forward,0,0.1,30\n"), StartsWith("p.csv:2:11: frequency 0 MHz is not in 50 to 5000"));
  EXPECT_THAT(read_error_of("0,forward,1e18,0.1,30\n"), StartsWith("p.csv:2:11: frequency"));
  EXPECT_THAT(read_error_of("0,forward,1410.5,0.1,30\n"),
              StartsWith("p.csv:2:11: frequency: expected a whole number, found \"1410.5\""));
  EXPECT_EQ(read_error_of("0,Forward,1410,0.1,30\n"),
            "p.csv:2:3: unknown instruction \"Forward\" (did you mean forward?); instructions are forward, backward, "
            "input_gradient, "
            "weight_gradient, recomputation and recomputing_backward");
}

TEST(ReadProfileFile, RefusesStagesThatAreNotConsecutive) {
  EXPECT_EQ(read_error_of("1,forward,1410,0.1,30\n1,backward,1410,0.1,30\n"),
            "p.csv: stage 0 has no rows, though stage 1 has; number the stages from 0 without a gap");
  EXPECT_THAT(read_error_of("0,forward,1410,0.1,30\n0,backward,1410,0.1,30\n65535,forward,1410,0.1,30\n"),
              StartsWith("p.csv: stage 1 has no rows, though stage 65535 has"));
  EXPECT_THAT(read_error_of("2000000000,forward,1410,0.1,30\n"),
              StartsWith("p.csv:2:1: stage 2000000000 is not in 0 to 65535"));
  EXPECT_THAT(read_error_of("-1,forward,1410,0.1,30\n"), StartsWith("p.csv:2:1: stage -1 is not in"));
}

TEST(ReadProfileFile, RefusesAStageThatLacksAnOp) {
  const std::string forward = "0,forward,1410,0.1,30\n";
  EXPECT_THAT(read_error_of(forward), StartsWith("p.csv: stage 0 has no backward rows; measure it"));
  EXPECT_THAT(read_error_of("0,backward,1410,0.1,30\n"), StartsWith("p.csv: stage 0 has no forward rows"));
  EXPECT_THAT(read_error_of(forward + "0,input_gradient,1410,0.1,30\n"),
              StartsWith("p.csv: stage 0 has no weight_gradient rows"));
  EXPECT_THAT(read_error_of(forward + "0,recomputation,1410,0.1,30\n"), StartsWith("p.csv: stage 0 has no backward"));
  EXPECT_THAT(read_error_of(forward + "0,backward,1410,0.1,30\n0,weight_gradient,1410,0.1,30\n"),
              StartsWith("p.csv: stage 0 has no input_gradient rows"));
}

TEST(ReadProfileFile, RefusesFilesThatAreNoProfile) {
  EXPECT_THAT(error_of([] { (void)read_profile_file("", "p.csv"); }), StartsWith("p.csv: is empty"));
  EXPECT_THAT(error_of([] { (void)read_profile_file(kProfileHeader, "p.csv"); }),
              StartsWith("p.csv: holds no measurements"));
  EXPECT_THAT(read_error_of("0,load,1410,0.1,30\n"), StartsWith("p.csv: holds no measurements"));
  EXPECT_THAT(error_of([] { (void)read_profile_file("stage,instruction,clock,time,energy\n", "p.csv"); }),
              AllOf(StartsWith("p.csv:1: there is no column \"frequency\""), HasSubstr("\"clock\"")));
  EXPECT_THAT(read_error_of("0,forward,1410,0.1,30\n0,backward,14"),
              AllOf(StartsWith("p.csv:3:12: the row has 3 cells, but the header has 5"), HasSubstr("truncated")));
}

TEST(ReadProfileFile, NamesTheColumnOrInstructionThatWasMeant) {
  EXPECT_EQ(
      error_of([] { (void)read_profile_file("Stage,instruction,frequency,time,energy\n0,forward,1,1,1\n", "p.csv"); }),
      "p.csv:1:1: there is no column \"stage\"; the header has \"Stage\", and upper and lower case differ: write "
      "stage");
  EXPECT_THAT(
      error_of([] { (void)read_profile_file("stage,instruction,frequency,time,power\n0,forward,1,1,1\n", "p.csv"); }),
      AllOf(StartsWith("p.csv:1:34: a profile has energies"), HasSubstr("energy = power x time")));
  EXPECT_THAT(read_error_of("0,fwd,1410,0.1,30\n"), HasSubstr("(did you mean forward?)"));
  EXPECT_THAT(read_error_of("0,bwd,1410,0.1,30\n"), HasSubstr("(did you mean backward?)"));
}

TEST(WriteProfileFile, WritesStageByStageHighestClockFirst) {
  StageProfile profile(1);
  profile.add(0, OpKind::backward, {1410, 0.25, 60});
  profile.add(0, OpKind::forward, {1200, 0.2, 20});
  profile.add(0, OpKind::forward, {1410, 0.1, 30.5});
  EXPECT_EQ(write_profile_file({.profile = profile}),
            "stage,instruction,frequency,time,energy\n"
            "0,forward,1410,0.1,30.5\n0,forward,1200,0.2,20\n0,backward,1410,0.25,60\n");
}

TEST(WriteProfileFile, IsReadBackUnchanged) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-12, 6);
  StageProfile profile(5);
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : kScheduledKinds) {
      for (int clock_mhz = 1001; clock_mhz <= 1100; ++clock_mhz) {
        profile.add(stage, kind, {clock_mhz, std::pow(10.0, exponent(random)), std::pow(10.0, exponent(random))});
      }
    }
  }
  EXPECT_EQ(read_profile_file(write_profile_file({.profile = profile}), "p.csv").profile, profile);
}

TEST(SettingsOfAProfileFile, AreWrittenAndReadAgain) {
  const StageProfile profile = read_profile_file(kWithSettings, "p.csv").profile;
  const std::string text = write_profile_file({.profile = profile});
  EXPECT_THAT(text, StartsWith("stage,instruction,frequency,time,energy,setting\n0,forward,1400,0.1,30,sm12\n"));
  EXPECT_EQ(write_profile_file({.profile = read_profile_file(text, "again.csv").profile}), text);
}

TEST(SettingsOfAProfileFile, AreNoColumnWhereThereAreNone) {
  const StageProfile profile = read_profile("0,forward,1400,0.1,20\n0,backward,1400,0.2,40\n");
  EXPECT_FALSE(profile.has_settings());
  EXPECT_EQ(write_profile_file({.profile = profile}),
            "stage,instruction,frequency,time,energy\n0,forward,1400,0.1,20\n0,backward,1400,0.2,40\n");
  EXPECT_NO_THROW(refuse_settings(profile, "it"));
}

TEST(SettingsOfAProfileFile, AreMergedOverRanksOneByOne) {
  const StageProfile profile =
      read_profile_file(
          "stage,instruction,frequency,time,energy,setting,rank\n0,forward,1400,1,10,a,0\n0,forward,1400,2,20,a,1\n"
          "0,forward,1400,3,6,b,0\n0,forward,1400,4,8,b,1\n0,backward,1400,1,1,,0\n0,backward,1400,1,1,,1\n",
          "p.csv")
          .profile;
  EXPECT_EQ(profile.at_setting(0, OpKind::forward, 1400, "a").time_s, 2);
  EXPECT_EQ(profile.at_setting(0, OpKind::forward, 1400, "b").energy_j, 7);
}

TEST(ReadProfileFile, RefusesClocksThatNoGpuHas) {
  for (const char* clock : {"1", "3", "14100"}) {
    EXPECT_THAT(read_error_of(fmt::format("0,forward,{},0.1,30\n", clock)),
                StartsWith(fmt::format("p.csv:2:11: frequency {} MHz is not in 50 to 5000, and no GPU's", clock)));
  }
}

TEST(ReadProfileFile, RefusesColumnsInSecondsUnderAnotherName) {
  for (const std::string column : {"switch_latency", "transfer"}) {
    for (const char* unit : {"_s", "_ms"}) {
      EXPECT_THAT(error_of([&] {
                    (void)read_profile_file("stage,instruction,frequency,time,energy," + column + unit +
                                                "\n0,forward,1410,0.1,30,0.02\n0,backward,1410,0.2,60,0.02\n",
                                            "p.csv");
                  }),
                  AllOf(StartsWith("p.csv:1:41: the column"), HasSubstr("name it " + column + ", and give seconds")));
    }
  }
}

TEST(StageColumns, AreReadAsTheyAreWritten) {
  const StageProfile rows = read_profile(kTwoStages);
  for (const StageColumns& columns :
       {StageColumns{}, StageColumns{.activation_bytes = {1e9, 5e8}}, StageColumns{.transfer_s = {0.001}},
        StageColumns{.activation_bytes = {3, 4}, .transfer_s = {0}}, StageColumns{.blocking_power_w = {70, 83.64}},
        StageColumns{.activation_bytes = {3, 4}, .transfer_s = {0}, .blocking_power_w = {0, 70}}}) {
    const std::string text = write_profile_file({.profile = rows, .columns = columns});
    const ProfileFile file = read_profile_file(text, "p.csv");
    EXPECT_EQ(file.columns, columns) << text;
    EXPECT_EQ(write_profile_file({.profile = file.profile}), std::string(kProfileHeader) + kTwoStages)
        << "rows are read alike with them";
  }
}

TEST(StageColumns, AreTheLargestOfAStage) {
  const StageColumns columns =
      read_profile_file(
          "stage,instruction,frequency,time,energy,activation_bytes,transfer\n"
          "1,forward,1410,0.1,30,7,0.1\n0,forward,1410,0.1,30,5,\n0,backward,1410,0.2,60,6,0.2\n"
          "1,backward,1410,0.2,60,,\n2,forward,1410,0.1,30,7,\n2,backward,1410,0.2,60,,\n0,load,1410,1,1,99,99\n",
          "p.csv")
          .columns;
  EXPECT_THAT(columns.activation_bytes, ElementsAre(6, 7, 7)) << "rows of load are skipped";
  EXPECT_THAT(columns.transfer_s, ElementsAre(0.2, 0.1));
}

TEST(StageColumns, RefuseWhatIsNoAmountWithItsPlace) {
  const auto error = [](const std::string& bytes, const std::string& transfer) {
    return error_of([&] {
      (void)read_profile_file(
          "stage,instruction,frequency,time,energy,activation_bytes,transfer\n0,forward,1410,0.1,30," + bytes + "," +
              transfer + "\n0,backward,1410,0.2,60,,\n1,forward,1410,0.1,30,,\n1,backward,1410,0.2,60,,\n",
          "p.csv");
    });
  };
  EXPECT_THAT(error("0", ""), StartsWith("p.csv:2:23: 0 is not a number of bytes"));
  EXPECT_THAT(error("many", ""), StartsWith("p.csv:2:23:"));
  EXPECT_THAT(error("", "-1"), HasSubstr("a transfer of -1 s is not in 0 to 1000"));
  EXPECT_THAT(error("5", ""), HasSubstr("stage 1 has no activation_bytes, and others do"));
  EXPECT_THAT(
      error_of([] {
        (void)read_profile_file(
            "stage,instruction,frequency,time,energy,transfer\n0,forward,1410,0.1,30,\n0,backward,1410,0.2,60,\n"
            "1,forward,1410,0.1,30,0.1\n1,backward,1410,0.2,60,\n",
            "p.csv");
      }),
      HasSubstr("stage 0 has no transfer, and others do"));
}

TEST(StageColumns, DoubtTransfersThatTakeManyTimesTheirForward) {
  ProfileFile file{.source = "p.csv", .profile = read_profile(kTwoStages), .columns = {.transfer_s = {0.8}}};
  EXPECT_THAT(profile_doubts(file, {}), IsEmpty());
  file.columns.transfer_s = {4};
  EXPECT_THAT(profile_doubts(file, {}),
              ElementsAre("p.csv: a transfer of stage 0 takes 4 s, and its forward 0.1 s: give seconds"));
}

TEST(SwitchLatencyOfAProfile, IsReadBackFromItsColumn) {
  const StageProfile rows = read_profile("0,forward,1410,0.1,30\n0,forward,1200,0.12,25\n0,backward,1410,0.2,60\n");
  EXPECT_EQ(read_profile_file(write_profile_file({.profile = rows}), "p.csv").switch_latency_s, std::nullopt);
  const std::string text = write_profile_file({.profile = rows, .switch_latency_s = 0.025});
  EXPECT_EQ(text,
            "stage,instruction,frequency,time,energy,switch_latency\n0,forward,1410,0.1,30,0.025\n"
            "0,forward,1200,0.12,25,0.025\n0,backward,1410,0.2,60,0.025\n");
  const ProfileFile file = read_profile_file(text, "p.csv");
  EXPECT_EQ(file.switch_latency_s, 0.025);
  EXPECT_EQ(file.profile, rows) << "rows are read alike with the column";
  EXPECT_EQ(read_profile_file(write_profile_file({.profile = rows, .switch_latency_s = 0}), "p.csv").switch_latency_s,
            0);
}

ProfileFile with_latencies(const std::string& of_forward, const std::string& of_backward) {
  return read_profile_file("stage,instruction,frequency,time,energy,switch_latency\n0,forward,1410,0.1,30," +
                               of_forward + "\n0,backward,1410,0.2,60," + of_backward + "\n",
                           "p.csv");
}

TEST(SwitchLatencyOfAProfile, IsThatOfTheSlowestRow) {
  EXPECT_EQ(with_latencies("0.02", "0.03").switch_latency_s, 0.03);
  EXPECT_EQ(with_latencies("", "").switch_latency_s, std::nullopt);
}

TEST(SwitchLatencyOfAProfile, RefusesWhatIsNoTime) {
  const auto error = [](const std::string& cell) { return error_of([&] { (void)with_latencies(cell, ""); }); };
  EXPECT_THAT(error("-1"), AllOf(StartsWith("p.csv:2:23:"), HasSubstr("switch latency of -1 s is not in 0 to 1")));
  EXPECT_THAT(error("25"), AllOf(HasSubstr("switch latency of 25 s is not in 0 to 1"),
                                 HasSubstr("give seconds: did you mean 0.025?")));
  EXPECT_THAT(error("late"), StartsWith("p.csv:2:23:"));
}

}  // namespace
}  // namespace lowgear::profile
