#include "base/core/energy/checked_counter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lowgear {
namespace {

constexpr double kPeriodS = 0.047;

/// A GPU with a limit of 400 W that draws `power_w` and counts its energy every 0.1 s. `spoil` changes what it shows.
/// It is read after each of `gaps_s` in turn.
struct CountedGpu {
  std::function<double(double)> power_w = [](double) { return 300.0; };
  std::function<void(CounterReading&)> spoil = [](CounterReading&) {};
  CheckedCounter counter{{.highest_power_w = highest_gpu_power_w(400)}};
  double time_s = 0;
  double true_j = 0;
  double shown_j = 5e6;
  std::string faults = {};
  std::vector<double> gaps_s = {kPeriodS};
  std::size_t readings = 0;

  void run_until(double end_s) {
    for (double gap_s = 0; time_s < end_s; time_s += gap_s) {
      gap_s = gaps_s[readings++ % gaps_s.size()];
      const double steps_before = std::floor((time_s - gap_s) * 10);
      true_j += power_w(time_s) * gap_s;
      if (std::floor(time_s * 10) > steps_before) shown_j = 5e6 + true_j;
      CounterReading reading{.time_s = time_s, .energy_j = shown_j, .power_w = power_w(time_s)};
      spoil(reading);
      const EnergyVerdict verdict = counter.add(reading);
      if (verdict.fault != EnergyFault::none) faults += std::string(name(verdict.fault)) + " ";
    }
  }
  [[nodiscard]] double counted_j() const { return counter.energy_j().value() - 5e6; }
};

TEST(CheckedCounter, FollowsAnHonestCounter) {
  CountedGpu gpu{.power_w = [](double time_s) { return std::fmod(time_s, 2) < 1 ? 400.0 : 60.0; }};
  gpu.run_until(60);
  EXPECT_EQ(gpu.faults, "");
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::none);
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 60);
}

TEST(CheckedCounter, SetsAJumpAside) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) {
    if (reading.time_s > 4) *reading.energy_j += 1e6;
  }};
  gpu.run_until(20);
  EXPECT_EQ(gpu.faults, "too_high ");
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 60);
  EXPECT_TRUE(gpu.counter.state().usable());
  EXPECT_EQ(gpu.counter.set_aside(EnergyFault::too_high), 1);
}

TEST(CheckedCounter, ContinuesWhereTheCounterStartsOver) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) {
    if (reading.time_s > 4) *reading.energy_j -= 5e6;
  }};
  gpu.run_until(20);
  EXPECT_EQ(gpu.faults, "falls ");
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 60);
}

TEST(CheckedCounter, ContinuesAfterOneWrongReading) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) {
    if (reading.time_s > 4 && reading.time_s < 4.05) reading.energy_j = 2.8e11;
  }};
  gpu.run_until(20);
  EXPECT_EQ(gpu.faults, "too_high falls ");
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 80);
}

TEST(CheckedCounter, SaysThatACounterStandsStillWhileItDoes) {
  double frozen_j = 0;
  CountedGpu gpu{.spoil = [&](CounterReading& reading) {
    if (reading.time_s <= 4) frozen_j = *reading.energy_j;
    if (reading.time_s > 4 && reading.time_s < 30) reading.energy_j = frozen_j;
  }};
  gpu.run_until(4.4);
  EXPECT_TRUE(gpu.counter.state().usable()) << "within a few periods";
  gpu.run_until(29);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::stands_still);
  EXPECT_NE(gpu.counter.state().reason.find("300 W"), std::string::npos) << gpu.counter.state().reason;
  gpu.run_until(40);
  EXPECT_TRUE(gpu.counter.state().usable());
  EXPECT_EQ(gpu.faults, "") << "it caught up with what was drawn";
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 80);
  EXPECT_EQ(gpu.counter.set_aside(EnergyFault::stands_still), 1);
}

TEST(CheckedCounter, FillsInWhatACounterLostWhileItStoodStill) {
  double frozen_j = 0;
  double lost_j = 0;
  CountedGpu gpu{.spoil = [&](CounterReading& reading) {
    if (reading.time_s <= 4) frozen_j = *reading.energy_j;
    if (reading.time_s > 4 && reading.time_s < 30) lost_j = *reading.energy_j - frozen_j;
    if (reading.time_s > 4) *reading.energy_j -= lost_j;
  }};
  gpu.run_until(40);
  EXPECT_EQ(gpu.faults, "contradicts ");
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 0.02 * gpu.true_j);
}

TEST(CheckedCounter, KnowsACounterThatNeverMoves) {
  for (const double constant_j : {0.0, 123456.789, 1.8446744e16}) {
    CountedGpu gpu{.spoil = [=](CounterReading& reading) { reading.energy_j = constant_j; }};
    gpu.run_until(1);
    EXPECT_EQ(gpu.counter.state().fault, EnergyFault::stands_still);
    EXPECT_FALSE(gpu.counter.has_moved());
  }
}

TEST(CheckedCounter, BelievesNoCounterThatStandsStillBecausePowerReadingsAreZeroToo) {
  CountedGpu gpu{.power_w = [](double) { return 0.0; }};
  gpu.run_until(5);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::stands_still);
}

TEST(CheckedCounter, KeepsTheCounterWherePowerReadingsCannotBe) {
  for (const double shown_w : {0.0, 0.3, 300000.0}) {
    CountedGpu gpu{.spoil = [=](CounterReading& reading) { reading.power_w = shown_w; }};
    gpu.run_until(30);
    EXPECT_EQ(gpu.counter.state().fault, EnergyFault::none) << shown_w;
    EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 60);
  }
}

TEST(CheckedCounter, SeesACounterThatHalvesWithinSeconds) {
  for (const double from_s : {3.0, 7.3, 12.9, 21.0}) {
    CountedGpu gpu{.spoil = [=](CounterReading& reading) {
      const double at_j = 5e6 + 300 * from_s;
      if (*reading.energy_j > at_j) *reading.energy_j = at_j + (*reading.energy_j - at_j) / 2;
    }};
    gpu.run_until(from_s);
    EXPECT_TRUE(gpu.counter.state().usable()) << from_s;
    gpu.run_until(from_s + 3.2);
    EXPECT_EQ(gpu.counter.state().fault, EnergyFault::contradicts) << from_s;
    gpu.run_until(60);
    EXPECT_EQ(gpu.counter.set_aside(EnergyFault::contradicts), 1) << from_s;
  }
}

/// As on a busy machine, where readings come when the load rests.
TEST(CheckedCounter, BelievesNoPowerReadingsThatComeUnevenly) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) { *reading.power_w *= 0.54; },
                 .gaps_s = {0.03, 0.4, 0.05, 0.3, 0.02, 0.25}};
  for (double end_s = 1; end_s <= 60; end_s += 1) {
    gpu.run_until(end_s);
    ASSERT_EQ(gpu.counter.state().fault, EnergyFault::none) << end_s << ": " << gpu.counter.state().reason;
  }
  gpu.gaps_s = {0.1};
  gpu.run_until(64);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::contradicts) << "the machine is idle again";
}

TEST(CheckedCounter, BelievesNoSecondAlone) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) {
    if (reading.time_s > 5 && reading.time_s < 5.9) *reading.power_w *= 0.54;
  }};
  for (double end_s = 1; end_s <= 20; end_s += 0.2) {
    gpu.run_until(end_s);
    ASSERT_TRUE(gpu.counter.state().usable()) << end_s << ": " << gpu.counter.state().reason;
  }
}

TEST(CheckedCounter, ForgetsAContradictionSecondsAfterIt) {
  double lost_j = 0;
  double before_j = 5e6;
  CountedGpu gpu{.spoil = [&](CounterReading& reading) {
    const double step_j = *reading.energy_j - before_j;
    before_j = *reading.energy_j;
    if (reading.time_s > 5 && reading.time_s < 8) lost_j += step_j / 2;
    *reading.energy_j -= lost_j;
  }};
  gpu.run_until(7.9);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::contradicts);
  gpu.run_until(11.3);
  EXPECT_TRUE(gpu.counter.state().usable()) << gpu.counter.state().reason;
  gpu.run_until(40);
  EXPECT_TRUE(gpu.counter.state().usable()) << gpu.counter.state().reason;
}

TEST(CheckedCounter, HoldsACounterAgainstTheLimitWhereThereAreNoPowerReadings) {
  CountedGpu gpu{.spoil =
                     [](CounterReading& reading) {
                       reading.power_w.reset();
                       *reading.energy_j = (*reading.energy_j - 5e6) * 1.8 + 5e6;
                     },
                 .counter = CheckedCounter(
                     {.highest_power_w = highest_gpu_power_w(400), .lasting_power_w = lasting_gpu_power_w(400)})};
  gpu.run_until(5);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::too_high);
}

TEST(CheckedCounter, KnowsACounterThatContradictsThePowerReadings) {
  for (const double factor : {0.57, 1.8}) {
    CountedGpu gpu{
        .spoil = [=](CounterReading& reading) { *reading.energy_j = (*reading.energy_j - 5e6) * factor + 5e6; }};
    gpu.run_until(4);
    EXPECT_EQ(gpu.counter.state().fault, EnergyFault::contradicts) << factor;
    gpu.run_until(60);
    EXPECT_EQ(gpu.counter.set_aside(EnergyFault::contradicts), 1);
  }
}

TEST(CheckedCounter, ComparesNoPowerThatIsOfOtherParts) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) { *reading.energy_j = (*reading.energy_j - 5e6) * 1.8 + 5e6; },
                 .counter = CheckedCounter({.compares_power = false})};
  gpu.run_until(60);
  EXPECT_EQ(gpu.counter.state().fault, EnergyFault::none);
}

TEST(CheckedCounter, NeedsNoPowerReadings) {
  CountedGpu gpu{.spoil = [](CounterReading& reading) {
    reading.power_w.reset();
    if (reading.time_s > 4) *reading.energy_j += 1e6;
  }};
  gpu.run_until(20);
  EXPECT_EQ(gpu.faults, "too_high ");
  EXPECT_NEAR(gpu.counted_j(), gpu.true_j, 80) << "the power of the steps before it";
}

TEST(CheckedCounter, AllowsLateReadings) {
  // The thread was held up for 2 s between the clock and the counter.
  CountedGpu gpu;
  gpu.run_until(4);
  CounterReading late{.time_s = 4.05, .time_error_s = 0, .energy_j = 5e6 + gpu.true_j + 2 * 300, .power_w = 300};
  CheckedCounter strict = gpu.counter;
  EXPECT_EQ(strict.add(late).fault, EnergyFault::too_high);
  late.time_error_s = 1;
  EXPECT_EQ(gpu.counter.add(late).fault, EnergyFault::none);
}

}  // namespace
}  // namespace lowgear
