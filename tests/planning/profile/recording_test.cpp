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

// ---- Merak ----

/// What Merak writes of one rank: grouped by instruction, window by window, warm-up first. The time of a forward says
/// at which clock it ran: 100 / MHz.
std::string merak_instructions(int iterations, int microbatches, const std::vector<int>& clocks_mhz) {
  std::vector<int> windows = {clocks_mhz.front(), clocks_mhz.front()};
  windows.insert(windows.end(), clocks_mhz.begin(), clocks_mhz.end());
  std::string forwards;
  std::string backwards;
  double now_s = 1.7e9;
  for (const int clock_mhz : windows) {
    for (int i = 0; i < iterations * microbatches; ++i) {
      forwards += fmt::format("forward_microstep,{:.6f},{:.6f}\n", now_s, now_s + 100.0 / clock_mhz);
      now_s += 0.5;
      backwards += fmt::format("backward_microstep,{:.6f},{:.6f}\n", now_s, now_s + 200.0 / clock_mhz);
      now_s += 0.5;
    }
  }
  return "instruction,start,end\nbatch_input,1,2\n" + backwards + forwards;
}

MerakText merak_text(const std::string& instructions, const std::string& energy, int rank = 5) {
  return {rank, "instructions-5.csv", "time-energy-5.csv", instructions, energy};
}

constexpr const char* kMerakEnergy = "time,energy\n1700000000.0,5\n1700000000.1,30.5\n";

TEST(ReadMerak, LabelsWindowsRightForEveryNumberOfSteps) {
  const std::vector<int> clocks_mhz = {1410, 1395, 1380};
  for (const int iterations : {1, 2, 5, 9, 10, 19, 20, 29, 30, 100}) {
    const std::string text = merak_instructions(iterations, 2, clocks_mhz);
    const Recording recording = read_merak(merak_text(text, kMerakEnergy), {4, 2, iterations, clocks_mhz});
    ASSERT_EQ(recording.units.size(), static_cast<std::size_t>(5 * iterations * 2 * 2));
    for (const RecordedUnit& unit : recording.units) {
      const double clock_mhz = (unit.kind == OpKind::forward ? 100 : 200) / (unit.end_s - unit.start_s);
      ASSERT_NEAR(unit.clock_mhz, clock_mhz, 0.5) << iterations;
      ASSERT_EQ(unit.stage, 1) << "rank 5 of 4 stages";
      ASSERT_GE(unit.iteration, -2 * iterations);
      ASSERT_LT(unit.iteration, 3 * iterations);
    }
    EXPECT_EQ(recording.units.front().iteration, -2 * iterations);
    EXPECT_EQ(recording.units.back().iteration, 3 * iterations - 1);
    EXPECT_EQ(recording.units.back().microbatch, 1);
  }
}

TEST(ReadMerak, RefusesMoreOrFewerUnitsThanTheRunHas) {
  const std::vector<int> clocks_mhz = {1410, 1395, 1380, 1365, 1350, 1335};
  const std::string text = merak_instructions(5, 4, clocks_mhz);
  const auto error = [](const std::string& instructions, const MerakRun& run) {
    return error_of([&] { (void)read_merak(merak_text(instructions, kMerakEnergy), run); });
  };
  EXPECT_EQ(error(text, {1, 4, 5, clocks_mhz}), "no error");
  EXPECT_EQ(error(text, {1, 4, 10, clocks_mhz}),
            "instructions-5.csv: holds 160 forwards, but 6 clocks and 2 warm-up windows of 10 iterations x 4 "
            "microbatches have 320; 5 iterations, or 2 microbatches, or 2 clocks would fit");
  EXPECT_THAT(error(text, {1, 8, 5, clocks_mhz}), HasSubstr("4 microbatches, or 2 clocks would fit"));
  EXPECT_THAT(error(text, {1, 4, 5, {1410, 1395}}), HasSubstr("or 6 clocks would fit"));
  const std::string cut = text.substr(0, text.rfind("forward_microstep"));
  EXPECT_THAT(error(cut, {1, 4, 5, clocks_mhz}), AllOf(HasSubstr("holds 159 forwards"), HasSubstr("was cut short")));
}

TEST(ReadMerak, KeepsTimeFromItsStart) {
  const std::string text = merak_instructions(1, 1, {1410});
  const Recording recording = read_merak(merak_text(text, kMerakEnergy), {1, 1, 1, {1410}});
  EXPECT_EQ(recording.units.front().start_s, 0);
  EXPECT_NEAR(recording.samples.back().time_s, 0.1, 1e-6);
  EXPECT_EQ(recording.sampling, CounterSampling::on_change);
}

TEST(ReadMerak, RefusesWhatIsWrong) {
  const MerakRun run{1, 1, 1, {1410}};
  const auto error = [&](const std::string& instructions, const std::string& energy) {
    return error_of([&] { (void)read_merak(merak_text(instructions, energy), run); });
  };
  EXPECT_THAT(error("instruction,start,end\nsleep,1,2\n", kMerakEnergy), StartsWith("instructions-5.csv:2:1: unknown"));
  EXPECT_THAT(error("instruction,start,end\nforward_microstep,2,1\n", kMerakEnergy), HasSubstr("ends before"));
  EXPECT_THAT(error("instruction,start,end\n", "time,energy\n2,1\n1,2\n"), StartsWith("time-energy-5.csv:3:1:"));
  EXPECT_THAT(error("instruction,start,end\n", "time,energy\n1,2\n2,1\n"), HasSubstr("counter falls"));
  EXPECT_THAT(error_of([] { (void)read_merak({}, {1, 1, 1, {}}); }), HasSubstr("and its clocks"));
  EXPECT_THAT(error_of([] { (void)read_merak({}, {1, 1 << 20, 1 << 20, {1410}}); }), HasSubstr("and its clocks"));
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
