#include "planning/profile/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/csv.h"

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kJson = R"({"format":"lowgear.recording/1","rank":3,"world_size":8,"job":"j",
"gpu":{"uuid":"GPU-1","name":"A100"},"simulated":true,"driver_version":"580","start_unix_s":1.7e9,"iterations":2,
"lost_units":4})";
constexpr const char* kUnits =
    "iteration,stage,instruction,microbatch,start_s,end_s,frequency\n"
    "0,1,backward,0,0.3,0.4,1200\n0,1,load,0,0,0.1,0\n0,1,forward,0,0.1,0.2,1410\n";
constexpr const char* kEnergy =
    "time_s,energy_j,power_w,sm_mhz,temperature_c,throttle_reasons\n"
    "0.05,100.5,80,1410,40,0\n0.10,,,,,\n0.15,110,300.5,1395,41,4\n";

struct Files {
  std::string json = kJson;
  std::string units = kUnits;
  std::string energy = kEnergy;

  std::string iterations;

  [[nodiscard]] Recording read() const { return read_recording({"r", json, units, energy, iterations}); }
  [[nodiscard]] std::string error() const {
    return error_of([this] { (void)read(); });
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ReadRecording, ReadsIterationsClockAndWhatSettles) {
  Files files;
  EXPECT_TRUE(files.read().iterations.empty());
  EXPECT_FALSE(files.read().clock.has_value());
  files.iterations = "iteration,start_s,end_s\n3,0.1,0.5\n5,0.6,0.9\n";
  files.json = replaced(files.json, "\"lost_units\":4", R"("lost_units":4,"boot_id":"b","start_monotonic_s":12.5)");
  files.units =
      "iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling\n"
      "0,1,forward,0,0.1,0.2,1410,1\n1,1,forward,0,0.3,0.4,1410,0\n";
  const Recording recording = files.read();
  ASSERT_EQ(recording.iterations.size(), 2);
  EXPECT_EQ(recording.iterations[1].number, 5);
  EXPECT_EQ(recording.iterations[1].start_s, 0.6);
  EXPECT_EQ(recording.iterations[1].end_s, 0.9);
  EXPECT_EQ(recording.clock.value().boot_id, "b");
  EXPECT_EQ(recording.clock.value().start_s, 12.5);
  EXPECT_TRUE(recording.units[0].settling);
  EXPECT_FALSE(recording.units[1].settling);
}

TEST(ReadRecording, RefusesWrongIterationsAndClocks) {
  Files files;
  files.iterations = "iteration,start_s,end_s\n3,0.1,0.5\n3,0.6,0.9\n";
  EXPECT_THAT(files.error(), AllOf(StartsWith("r/iterations.csv:3:"), HasSubstr("3 does not follow 3")));
  files.iterations = "iteration,start_s,end_s\n3,0.5,0.1\n";
  EXPECT_THAT(files.error(), HasSubstr("ends before it starts"));
  files.iterations.clear();
  for (const char* time : {"-1", "1e300", "\"x\""}) {
    files.json = replaced(kJson, "\"lost_units\":4",
                          fmt::format(R"("lost_units":4,"boot_id":"b","start_monotonic_s":{})", time));
    EXPECT_THAT(files.error(), HasSubstr("start_monotonic_s"));
  }
  files.json = kJson;
  files.units =
      "iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling\n0,1,forward,0,0.1,0.2,1410,2\n";
  EXPECT_THAT(files.error(), HasSubstr("2 is not in 0 to 1"));
}

TEST(ReadRecording, RefusesUnitsThatNoScheduleHas) {
  Files files;
  files.units = "iteration,stage,instruction,microbatch,start_s,end_s,frequency\n0,1,forward_backward,0,0.1,0.2,1410\n";
  EXPECT_THAT(files.error(), HasSubstr("a forward and a backward in one"));
}

TEST(ReadRecording, ReadsWhyItIsInvalid) {
  Files files;
  EXPECT_EQ(files.read().invalid, "");
  files.json = replaced(kJson, "\"lost_units\":4", R"("lost_units":4,"ended":false)");
  EXPECT_THAT(
      files.read().warnings,
      Contains(HasSubstr("rank 3 has not ended its recording: it still runs, was killed, or its disk is full")));
  files.json = replaced(kJson, "\"lost_units\":4", R"("lost_units":4,"ended":true,"failure":"OSError")");
  EXPECT_THAT(files.read().warnings, Contains(HasSubstr("rank 3 failed (OSError): its recording ends there")));
  files.json = replaced(kJson, "\"lost_units\":4", R"("lost_units":4,"ended":true,"failure":"KeyboardInterrupt")");
  EXPECT_THAT(files.read().warnings, Contains(HasSubstr("rank 3 was stopped by Ctrl-C: its recording ends there")));
  files.json = replaced(kJson, "\"lost_units\":4", R"("lost_units":4,"invalid":"short kernels")");
  EXPECT_EQ(files.read().invalid, "short kernels");
}

TEST(ReadRecording, ReadsUnitsByTimeAndWhatTheGpuReports) {
  const Recording recording = Files().read();
  EXPECT_EQ(recording.rank, 3);
  EXPECT_EQ(recording.world_size, 8);
  EXPECT_TRUE(recording.simulated);
  EXPECT_EQ(recording.lost_units, 4);
  EXPECT_EQ(recording.gpu_name, "A100");
  ASSERT_EQ(recording.units.size(), 2) << "load is no computation";
  EXPECT_EQ(recording.units[0].kind, OpKind::forward);
  EXPECT_EQ(recording.units[0].clock_mhz, 1410);
  EXPECT_EQ(recording.units[1].kind, OpKind::backward);
  EXPECT_EQ(recording.units[1].end_s, 0.4);
  ASSERT_EQ(recording.samples.size(), 3);
  EXPECT_EQ(recording.samples[0].energy_j, 100.5);
  EXPECT_FALSE(recording.samples[1].energy_j.has_value());
  EXPECT_EQ(recording.samples[2].throttle_reasons, 4);
  EXPECT_EQ(recording.samples[2].sm_mhz, 1395);
}

TEST(ReadRecording, NeedsNoMoreThanTimeAndEnergy) {
  Files files;
  files.energy = "time_s,energy_j\n1,5\n";
  EXPECT_EQ(files.read().samples.at(0).energy_j, 5);
  EXPECT_FALSE(files.read().samples.at(0).power_w.has_value());
}

TEST(ReadRecording, LeavesOutALastLineThatWasCutOff) {
  Files files;
  EXPECT_TRUE(files.read().warnings.empty());
  files.units += "1,1,forward,0,0.5";
  files.energy += "0.2";
  files.iterations = "iteration,start_s,end_s\n3,0.1,0.5\n4,0.6,0.";
  const Recording recording = files.read();
  EXPECT_EQ(recording.units.size(), 2);
  EXPECT_EQ(recording.samples.size(), 3);
  EXPECT_EQ(recording.iterations.size(), 1);
  EXPECT_THAT(recording.warnings, ElementsAre("r/units.csv: the recording ends within its last line, which is left out",
                                              StartsWith("r/energy.csv: "), StartsWith("r/iterations.csv: ")));
}

TEST(ReadRecording, ReadsMoreCellsThanAreHeldAtOnce) {
  constexpr std::size_t kColumns = 1 << 12;
  const std::string commas(kColumns, ',');
  std::string header = "time_s,energy_j";
  for (std::size_t column = 0; column < kColumns; ++column) header += fmt::format(",c{}", column);
  Files files;
  files.energy = header + "\n";
  constexpr int kRows = static_cast<int>(kMaxCsvCells / kColumns) + 1;
  for (int row = 0; row < kRows; ++row) files.energy += fmt::format("{},{}{}\n", row, row, commas);
  const Recording recording = files.read();
  ASSERT_EQ(recording.samples.size(), kRows);
  EXPECT_EQ(recording.samples.back().energy_j, kRows - 1);
}

TEST(ReadRecording, RefusesAnotherFormatAndRanksBeyondTheWorld) {
  Files files;
  files.json = replaced(kJson, "recording/1", "recording/2");
  EXPECT_THAT(files.error(), AllOf(StartsWith("r/recording.json"), HasSubstr("lowgear.recording/1")));
  files.json = replaced(kJson, "\"rank\":3", "\"rank\":8");
  EXPECT_THAT(files.error(), HasSubstr("$.rank"));
  files.json = replaced(kJson, "\"lost_units\":4", "\"lost_units\":-1");
  EXPECT_THAT(files.error(), HasSubstr("$.lost_units"));
}

TEST(ReadRecording, SaysWhereAUnitIsWrong) {
  const std::map<std::string, std::string> wrong = {{"0,1,forward,0,0.1,0.2,1410", "0,1,forwards,0,0.1,0.2,1410"},
                                                    {"0.1,0.2,1410", "0.1,0.05,1410"},
                                                    {"0.1,0.2,1410", "0.1,0.2,-5"},
                                                    {"0.1,0.2,1410", "nan,0.2,1410"},
                                                    {"0.1,0.2,1410", "-1,0.2,1410"},
                                                    {"0,1,forward,0", "0,70000,forward,0"},
                                                    {"0,1,forward,0", "-1,1,forward,0"}};
  for (const auto& [from, to] : wrong) {
    Files files;
    files.units = replaced(kUnits, from, to);
    EXPECT_THAT(files.error(), StartsWith("r/units.csv:4:")) << to;
  }
  Files files;
  files.units = "iteration,stage\n";
  EXPECT_THAT(files.error(), HasSubstr("there is no column \"instruction\""));
}

TEST(ReadRecording, SaysWhereASampleIsWrong) {
  const std::map<std::string, std::string> wrong = {
      {"0.15,110", "0.05,110"}, {"0.15,110", "0.15,99"}, {"0.15,110", "0.15,1e300"}, {"1395", "-1"}, {",4\n", ",-4\n"}};
  for (const auto& [from, to] : wrong) {
    Files files;
    files.energy = replaced(kEnergy, from, to);
    EXPECT_THAT(files.error(), StartsWith("r/energy.csv:4:")) << to;
  }
}

TEST(RankInName, IsANumber) {
  EXPECT_EQ(rank_in_name("instructions-12.csv", "instructions-", ".csv"), 12);
  EXPECT_EQ(rank_in_name("rank-00003", "rank-", ""), 3);
  for (const char* other : {"instructions-.csv", "instructions-a.csv", "instructions-1e3.csv", "instructions--1.csv",
                            "instructions-99999999999999999999.csv", "x-1.csv", ""}) {
    EXPECT_FALSE(rank_in_name(other, "instructions-", ".csv").has_value()) << other;
  }
}

}  // namespace
}  // namespace lowgear::profile
