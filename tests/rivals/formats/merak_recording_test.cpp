#include "rivals/formats/merak_recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::formats {
namespace {

using profile::CounterSampling;
using profile::RecordedUnit;
using profile::Recording;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// What Merak writes of one rank: grouped by instruction, window by window, warm-up first. The time of a forward says
/// at which clock it ran: 100 / MHz.
std::string instructions_file(int iterations, int microbatches, const std::vector<int>& clocks_mhz) {
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
    const std::string text = instructions_file(iterations, 2, clocks_mhz);
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
  const std::string text = instructions_file(5, 4, clocks_mhz);
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
  const std::string text = instructions_file(1, 1, {1410});
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

}  // namespace
}  // namespace lowgear::formats
