#include "hardware/measure/energy_track.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lowgear::measure {
namespace {

/// A counter that advances every `period_s` at a constant power.
class StepCounter {
 public:
  StepCounter(double power_w, double period_s, double phase_s)
      : power_w_(power_w), period_s_(period_s), phase_s_(phase_s) {}
  [[nodiscard]] double shown_j(double time_s) const {
    return power_w_ * (std::floor((time_s - phase_s_) / period_s_) * period_s_ + phase_s_);
  }
  [[nodiscard]] double true_j(double time_s) const { return power_w_ * time_s; }

 private:
  double power_w_;
  double period_s_;
  double phase_s_;
};

TEST(EnergyTrack, KnowsNothingBeforeTwoSteps) {
  EnergyTrack track;
  EXPECT_FALSE(track.at(0));
  track.add(0.00, 100);
  track.add(0.05, 100);
  EXPECT_FALSE(track.ready());
  track.add(0.10, 110);
  EXPECT_FALSE(track.at(0.12)) << "one step says nothing about power";
  track.add(0.20, 120);
  EXPECT_TRUE(track.ready());
}

TEST(EnergyTrack, ContinuesWithThePowerOfTheLastStep) {
  EnergyTrack track;
  track.add(0.04, 0);
  track.add(0.06, 10);  // stepped at 0.05
  track.add(0.14, 10);
  track.add(0.16, 20);  // at 0.15: 100 W
  const EnergyEstimate estimate = track.at(0.20).value();
  EXPECT_NEAR(estimate.energy_j, 25, 1e-9);
  EXPECT_NEAR(estimate.uncertainty_j, 100 * 0.01, 1e-9);
  EXPECT_NEAR(track.step_period_s().value(), 0.1, 1e-12);
}

TEST(EnergyTrack, CountsStepsThatFellBetweenReadings) {
  EnergyTrack track;
  for (int i = 0; i <= 10; ++i) track.add(0.001 + 0.1 * i, 10.0 * i);
  track.add(1.301, 130);  // two steps were missed; still 100 W
  EXPECT_NEAR(track.at(1.4).value().energy_j, 130 + 100 * (1.4 - (1.001 + 1.301) / 2), 5);
  EXPECT_NEAR(track.step_period_s().value(), 0.1, 0.01);
}

TEST(EnergyTrack, IsWithinItsUncertaintyAtAnyPhase) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> phase(0, 0.1);
  std::uniform_real_distribution<double> jitter(-0.004, 0.004);
  for (int round = 0; round < 200; ++round) {
    const StepCounter counter(500, 0.1, phase(random));
    EnergyTrack track;
    double time_s = 0.2;
    for (int i = 0; i < 120; ++i) {
      track.add(time_s, counter.shown_j(time_s));
      time_s += 0.047 + jitter(random);
    }
    const EnergyEstimate estimate = track.at(time_s).value();
    // Beyond what is stated, the mean period of five seconds is known to one per cent.
    EXPECT_NEAR(estimate.energy_j, counter.true_j(time_s), estimate.uncertainty_j + 0.011 * 500 * 0.2);
    EXPECT_LT(estimate.uncertainty_j, 500 * 0.05);
  }
}

TEST(EnergyTrack, StartsOverWhenTheCounterFalls) {
  EnergyTrack track;
  for (int i = 0; i < 5; ++i) track.add(0.1 * i, 1000 + 10.0 * i);
  const int run = track.at(0.5).value().run;
  track.add(0.5, 3);
  EXPECT_FALSE(track.ready());
  track.add(0.6, 13);
  track.add(0.7, 23);
  EXPECT_NE(track.at(0.7).value().run, run);
  EXPECT_NEAR(track.at(0.7).value().energy_j, 28, 1e-9) << "the step came half a reading ago";
}

TEST(EnergyTrack, ContinuesForAFewPeriodsAndNoLonger) {
  EnergyTrack track;
  for (int i = 0; i <= 20; ++i) track.add(0.05 * i, 10.0 * (i / 2));
  EXPECT_NEAR(track.at(1.3).value().energy_j, 100 + 100 * 0.3, 5);
  const EnergyEstimate later = track.at(60).value();
  EXPECT_NEAR(later.time_s, 1, 0.05);
  EXPECT_NEAR(later.energy_j, 100, 1e-9);
}

TEST(EnergyTrack, CountsOnOverReadingsThatAreMissing) {
  const StepCounter counter(500, 0.1, 0.03);
  for (const double gap_s : {0.4, 3.0, 30.0, 3000.0}) {
    EnergyTrack track;
    double time_s = 0.2;
    for (int i = 0; i < 40; ++i, time_s += 0.047) track.add(time_s, counter.shown_j(time_s));
    const EnergyEstimate before = track.at(time_s).value();
    time_s += gap_s;
    for (int i = 0; i < 10; ++i, time_s += 0.047) track.add(time_s, counter.shown_j(time_s));
    const EnergyEstimate after = track.at(time_s).value();
    EXPECT_EQ(after.run, before.run);
    EXPECT_NEAR(after.energy_j, counter.true_j(time_s), after.uncertainty_j + 0.011 * 500 * 0.2) << gap_s;
    EXPECT_LT(after.uncertainty_j, 500 * 0.1);
  }
}

}  // namespace
}  // namespace lowgear::measure
