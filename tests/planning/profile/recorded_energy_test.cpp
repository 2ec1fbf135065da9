#include "planning/profile/recorded_energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "planning/profile/made_up_recording.h"
#include "planning/profile/recorded_profile.h"

namespace lowgear::profile {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const CellKey kForward{0, OpKind::forward, 1400};
const CellKey kBackward{0, OpKind::backward, 1400};

/// A process whose power readings are means over 100 ms, next to its counter. `change` makes of (time, value) what the
/// counter shows.
Recording recording_with(const std::function<double(double, double)>& change = {}) {
  MadeUpProcess process;
  process.power_w = {{kForward, 360}, {kBackward, 380}};
  process.counter_step_s = 0.001;
  process.reading_period_s = 0.02;
  Recording recording = process.record({1400}, 40, 8);
  recording.power_limit_w = 400;
  std::vector<EnergySample>& samples = recording.samples;
  constexpr double kMeanS = 0.1;
  std::size_t from = 0;
  for (EnergySample& sample : samples) {
    const double begin_s = sample.time_s - kMeanS;
    sample.power_w = 80;
    if (begin_s <= 0) continue;
    while (samples[from + 1].time_s < begin_s) ++from;
    const EnergySample& before = samples[from];
    const EnergySample& after = samples[from + 1];
    const double share = (begin_s - before.time_s) / (after.time_s - before.time_s);
    const double begin_j = *before.energy_j + share * (*after.energy_j - *before.energy_j);
    sample.power_w = (*sample.energy_j - begin_j) / kMeanS;
  }
  if (!change) return recording;
  for (EnergySample& sample : samples) sample.energy_j = change(sample.time_s, *sample.energy_j);
  return recording;
}

std::vector<std::string> warnings_of(Recording recording) {
  settle_energy(recording);
  return recording.warnings;
}

TEST(SettleEnergy, KeepsACounterThatAgreesWithItsPowerReadings) {
  Recording recording = recording_with();
  const std::vector<EnergySample> before = recording.samples;
  settle_energy(recording);
  EXPECT_THAT(recording.warnings, IsEmpty());
  EXPECT_FALSE(recording.energy_from_power);
  EXPECT_EQ(*recording.samples.back().energy_j, *before.back().energy_j);
}

TEST(SettleEnergy, TakesPowerReadingsInPlaceOfACounterThatCannotBeRight) {
  const auto counter = [](const std::function<double(double, double)>& change) {
    return warnings_of(recording_with(change));
  };
  const auto low = counter([](double, double energy_j) { return 1000 + (energy_j - 1000) * 0.57; });
  EXPECT_THAT(low, ElementsAre(AllOf(HasSubstr("made up/energy.csv: the energy counter shows"),
                                     HasSubstr("the power readings make"), HasSubstr("-43 %"),
                                     HasSubstr("either can be wrong; its energies are integrated power readings, known "
                                               "to 43 %"))));
  EXPECT_THAT(counter([](double, double energy_j) { return 1000 + (energy_j - 1000) * 1.8; }),
              ElementsAre(AllOf(HasSubstr("+80 %"), HasSubstr("known to 7 %"))))
      << "above the power limit";
  EXPECT_THAT(counter([](double, double energy_j) { return 1000 * energy_j; }),
              ElementsAre(HasSubstr("at most 800 W are possible")));
  EXPECT_THAT(counter([](double time_s, double energy_j) { return time_s < 20 ? energy_j : energy_j + 1e6; }),
              ElementsAre(HasSubstr("at most 800 W are possible, at 19.9")));
  EXPECT_THAT(counter([](double, double) { return 0; }), ElementsAre(HasSubstr("shows no energy for")));
  double last_j = 0;
  EXPECT_THAT(counter([&](double time_s, double energy_j) { return time_s < 25 ? last_j = energy_j : last_j; }),
              ElementsAre(HasSubstr("integrated power readings")))
      << "stands still in a part of the recording";
}

TEST(SettleEnergy, SaysADifferenceAndKeepsTheCounter) {
  EXPECT_THAT(
      warnings_of(recording_with([](double, double energy_j) { return 1000 + (energy_j - 1000) * 0.8; })),
      ElementsAre(AllOf(HasSubstr("-20 %"), HasSubstr("the counter is used, and its energies are known to 25 %"))));
}

TEST(SettleEnergy, RefusesAnImpossibleCounterWithoutPowerReadings) {
  Recording recording =
      recording_with([](double time_s, double energy_j) { return time_s < 20 ? energy_j : energy_j + 1e6; });
  for (EnergySample& sample : recording.samples) sample.power_w.reset();
  EXPECT_THAT(error_of([&] { settle_energy(recording); }),
              AllOf(HasSubstr("made up/energy.csv: the energy counter shows"), HasSubstr("record again")));
}

/// With power readings in every `every`th sample alone, up to `until_s`.
Recording with_readings(Recording recording, std::size_t every, double until_s = 1e9) {
  for (std::size_t i = 0; i < recording.samples.size(); ++i) {
    EnergySample& sample = recording.samples[i];
    if (i % every != 0 || sample.time_s > until_s) sample.power_w.reset();
  }
  return recording;
}

TEST(SettleEnergy, ComparesWherePowerReadingsAreFew) {
  const auto low = [](double, double energy_j) { return 1000 + (energy_j - 1000) * 0.57; };
  for (const std::size_t every : {2, 3, 10}) {
    SCOPED_TRACE(every);
    EXPECT_THAT(warnings_of(with_readings(recording_with(low), every)),
                ElementsAre(HasSubstr("the energy counter shows")));
    Recording good = with_readings(recording_with(), every);
    settle_energy(good);
    EXPECT_THAT(good.warnings, IsEmpty());
    EXPECT_EQ(good.uncompared, "");
  }
}

TEST(SettleEnergy, SaysWhatWasNotCompared) {
  const auto uncompared = [](const Recording& recording) {
    Recording settled = recording;
    settled.rank = 3;
    settle_energy(settled);
    return uncompared_energies(std::vector{settled});
  };
  EXPECT_THAT(uncompared(recording_with()), IsEmpty());
  EXPECT_THAT(uncompared(with_readings(recording_with(), 1, -1)),
              ElementsAre("energies of rank 3 were not compared with power readings: there are none next to the "
                          "counter's values"));
  EXPECT_THAT(uncompared(with_readings(recording_with(), 1, 12)), ElementsAre(HasSubstr("they cover 12 of 4")));
}

TEST(SettleEnergy, SetsAPartAsideInWhichTheCounterDiffers) {
  for (const double factor : {0.75, 0.85, 0.9, 1.15}) {
    SCOPED_TRACE(factor);
    double shown_j = 1000;
    double last_j = 1000;
    Recording recording = recording_with([&](double time_s, double energy_j) {
      shown_j += (energy_j - last_j) * (time_s > 15 && time_s < 27 ? factor : 1);
      last_j = energy_j;
      return shown_j;
    });
    settle_energy(recording);
    EXPECT_THAT(recording.warnings,
                ElementsAre(AllOf(HasSubstr("the energy counter shows"), HasSubstr(" s, and the power"),
                                  HasSubstr("the energies of this time are left out"))));
    EXPECT_FALSE(recording.energy_from_power);
    EXPECT_TRUE(recording.is_set_aside(16, 26));
    EXPECT_FALSE(recording.is_set_aside(0, 10));
    const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
    ASSERT_EQ(profile.cells.size(), 2);
    const RecordedProfile clean = profile_recordings(std::vector{recording_with()}, {});
    EXPECT_NEAR(profile.cells[0].power_w, clean.cells[0].power_w, 8);
    EXPECT_NEAR(profile.cells[1].power_w, clean.cells[1].power_w, 8);
  }
}

TEST(SettleEnergy, KeepsACounterNextToPowerReadingsThatCannotBeRight) {
  const auto with_power = [](const std::function<double(const EnergySample&)>& change) {
    Recording recording = recording_with();
    for (EnergySample& sample : recording.samples) sample.power_w = change(sample);
    settle_energy(recording);
    EXPECT_FALSE(recording.energy_from_power);
    EXPECT_EQ(recording.energy_error_share, 0);
    EXPECT_TRUE(recording.set_aside.empty());
    return recording;
  };
  EXPECT_THAT(with_power([](const EnergySample& sample) { return 1000 * *sample.power_w; }).warnings,
              ElementsAre(HasSubstr("power readings are below 1 W, or above the 800 W that are possible; left out")))
      << "milliwatts";
  const Recording zero = with_power([](const EnergySample&) { return 0; });
  EXPECT_THAT(zero.warnings, ElementsAre(HasSubstr("power readings are below 1 W")));
  EXPECT_NE(zero.uncompared, "");
  EXPECT_THAT(with_power([](const EnergySample&) { return 150; }).warnings,
              Each(HasSubstr("the power readings cannot be right")));
  EXPECT_THAT(with_power([](const EnergySample& sample) { return 0.1 * *sample.power_w; }).warnings,
              ElementsAre(HasSubstr("the power readings cannot be right, and the counter is used")));
}

TEST(SettleEnergy, RefusesACounterAndPowerReadingsThatBothCannotBeRight) {
  Recording recording =
      recording_with([](double time_s, double energy_j) { return time_s < 20 ? energy_j : energy_j + 1e6; });
  for (EnergySample& sample : recording.samples) sample.power_w = 300;
  EXPECT_THAT(error_of([&] { settle_energy(recording); }),
              AllOf(HasSubstr("all power readings are 300 W"), HasSubstr("neither can be right")));
}

TEST(ProfileRecordings, HasThePowersOfReadingsWhereTheCounterCannotBeRight) {
  const Recording recording = recording_with([](double, double energy_j) { return 1000 + (energy_j - 1000) * 0.57; });
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  ASSERT_EQ(profile.cells.size(), 2);
  EXPECT_NEAR(profile.cells[0].power_w, 360, 15) << "readings are means over 100 ms, units take 36 and 71 ms";
  EXPECT_NEAR(profile.cells[1].power_w, 380, 15);
  EXPECT_GT(profile.cells[0].energy_error_j, 0.07 * profile.cells[0].energy_j);
  EXPECT_NEAR(profile.blocking.front().power_w, 80, 20);
}

TEST(ProfileRecordings, LeavesOutCellsThatNoGpuCanHaveRun) {
  MadeUpProcess process;
  process.power_w = {{kForward, 1200}, {kBackward, 300}};
  Recording recording = process.record({1400}, 20, 8);
  EXPECT_EQ(profile_recordings(std::vector{recording}, {}).cells.size(), 2) << "some GPU may draw so much";
  recording.gpu_name = "A100";
  recording.power_limit_w = 400;
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  ASSERT_EQ(profile.cells.size(), 2);
  EXPECT_FALSE(profile.cells.front().is_possible);
  EXPECT_FALSE(profile.profile().has(0, OpKind::forward));
  EXPECT_TRUE(profile.profile().has(0, OpKind::backward));
  EXPECT_THAT(profile.warnings, Contains(AllOf(HasSubstr("stage 0 forward at 1400 MHz draws 1"),
                                               HasSubstr("the power limit of A100 (400 W); left out"))));
}

}  // namespace
}  // namespace lowgear::profile
