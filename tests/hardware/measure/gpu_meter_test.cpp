#include "hardware/measure/gpu_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>

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
}

TEST(EnergyTrack, CountsStepsThatFellBetweenReadings) {
  EnergyTrack track;
  for (int i = 0; i <= 10; ++i) track.add(0.001 + 0.1 * i, 10.0 * i);
  track.add(1.301, 130);  // two steps were missed; still 100 W
  EXPECT_NEAR(track.at(1.4).value().energy_j, 130 + 100 * (1.4 - (1.001 + 1.301) / 2), 5);
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

TEST(EnergyTrack, IsWithinItsUncertaintyWhereReadingsWereHeldUp) {
  constexpr double kHeldUpS = 0.02;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> phase(0, 0.1);
  std::uniform_real_distribution<double> late(-kHeldUpS, kHeldUpS);
  for (int round = 0; round < 200; ++round) {
    const StepCounter counter(500, 0.1, phase(random));
    EnergyTrack track;
    double time_s = 0.2;
    for (int i = 0; i < 30; ++i, time_s += 0.047) {
      track.add(time_s, counter.shown_j(time_s + late(random)), kHeldUpS);
    }
    const EnergyEstimate estimate = track.at(time_s).value();
    EXPECT_NEAR(estimate.energy_j, counter.true_j(time_s), estimate.uncertainty_j + 0.03 * 500 * 0.2);
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

gpu::GpuFeatures all_features() {
  gpu::GpuFeatures features;
  for (gpu::GpuFeatureStatus& feature : features) feature.works = true;
  return features;
}

gpu::GpuIdentity identity() {
  gpu::GpuIdentity identity;
  identity.uuid = "GPU-1";
  return identity;
}

gpu::GpuFeatures without_counter() {
  gpu::GpuFeatures features = all_features();
  features[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)] = {
      .works = false, .code = gpu::GpuErrorCode::not_supported, .reason = "no energy counter before Volta"};
  return features;
}

/// A GPU that draws `idle_w` until `load_start_s`, `load_w` until `load_end_s`, and `idle_w` again, with a counter that
/// steps every 100 ms.
struct LoadedGpu {
  double idle_w = 100;
  double load_w = 700;
  double load_start_s = 3;
  double load_end_s = 13;

  [[nodiscard]] double energy_j(double time_s) const {
    const double loaded_s = std::clamp(time_s, load_start_s, load_end_s) - load_start_s;
    return idle_w * (time_s - loaded_s) + load_w * loaded_s;
  }
  [[nodiscard]] GpuSample sample(double time_s) const {
    GpuSample result;
    result.time_s = time_s;
    result.counter_time_s = time_s;
    result.energy_j = energy_j(std::floor(time_s * 10 + 1e-9) / 10);
    const bool loaded = time_s > load_start_s && time_s <= load_end_s;
    result.power_w = loaded ? load_w : idle_w;
    result.sm_clock_mhz = loaded ? 1400 : 1980;
    result.temperature_c = loaded ? 60 : 40;
    result.gpu_utilisation_percent = loaded ? 100 : 0;
    result.throttle_reasons = gpu::ThrottleReasons{.bits = loaded ? 0x4U : 0U};
    return result;
  }
};

GpuMeasurement measure_load(const LoadedGpu& gpu, double first_reading_s, double period_s, double begin_s,
                            double end_s) {
  GpuMeter meter(identity(), all_features());
  std::optional<GpuWindow> window;
  double time_s = first_reading_s;
  for (; time_s <= end_s; time_s += period_s) {
    if (!window && time_s > begin_s) window = meter.begin(begin_s);
    meter.add(gpu.sample(time_s));
    if (window) window->add(gpu.sample(time_s));
  }
  return meter.measure(*window, end_s);
}

TEST(GpuMeter, TenSecondsOfLoadAreKnownToOnePerCentAtAnyPhase) {
  for (double first_s = 0; first_s < 0.1; first_s += 0.003) {
    for (double start_s = 3; start_s < 3.1; start_s += 0.013) {
      LoadedGpu gpu{.load_start_s = start_s, .load_end_s = start_s + 10};
      const GpuMeasurement result = measure_load(gpu, first_s, 0.047, gpu.load_start_s, gpu.load_end_s);
      const double truth_j = gpu.energy_j(gpu.load_end_s) - gpu.energy_j(gpu.load_start_s);
      EXPECT_EQ(result.source, EnergySource::counter);
      EXPECT_NEAR(result.energy_j.value(), truth_j, 0.01 * truth_j);
      EXPECT_LE(std::abs(result.energy_j.value() - truth_j), result.energy_uncertainty_j.value() + 0.002 * truth_j);
      EXPECT_LT(result.energy_uncertainty_j.value(), 0.006 * truth_j);
    }
  }
}

/// The counter shows neither the pause between two loads nor the one at the window's end before the window ends.
TEST(GpuMeter, IsWithinItsUncertaintyAfterAPauseAndWithOneAtItsEnd) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> pause_s(0, 0.15);
  std::uniform_real_distribution<double> share(1, 1.6);
  for (int round = 0; round < 100; ++round) {
    const double begin_s = 3 + share(random);
    const LoadedGpu before{.load_start_s = 2, .load_end_s = begin_s - pause_s(random)};
    const double longest_s = round % 2 == 0 ? 1 : 10;
    const LoadedGpu block{.load_start_s = begin_s, .load_end_s = begin_s + longest_s * share(random)};
    const double end_s = block.load_end_s + (round % 3 == 0 ? 0 : pause_s(random));
    const auto energy_j = [&](double time_s) {
      return before.energy_j(time_s) + block.energy_j(time_s) - block.idle_w * time_s;
    };
    GpuMeter meter(identity(), all_features(), {}, EdgePower::any_seen);
    std::optional<GpuWindow> window;
    for (double time_s = pause_s(random); time_s <= end_s; time_s += 0.047) {
      if (!window && time_s > begin_s) window = meter.begin(begin_s);
      GpuSample sample = block.sample(time_s);
      sample.energy_j = energy_j(std::floor(time_s * 10 + 1e-9) / 10);
      sample.power_w.reset();
      meter.add(sample);
      if (window) window->add(sample);
    }
    const GpuMeasurement result = meter.measure(*window, end_s);
    const double off_j = result.energy_j.value() - (energy_j(end_s) - energy_j(begin_s));
    EXPECT_LE(std::abs(off_j), result.energy_uncertainty_j.value()) << round;
    EXPECT_LT(*result.energy_uncertainty_j, 2 * 0.16 * (block.load_w - block.idle_w)) << round;
  }
}

TEST(GpuMeter, ThePeakIsNotBelowTheMean) {
  // The load is over between two readings: only the counter has seen it.
  const LoadedGpu gpu{.load_start_s = 5.05, .load_end_s = 5.95};
  const GpuMeasurement result = measure_load(gpu, 0, 1, 4.9, 6.1);
  EXPECT_GE(result.peak_power_w.value(), result.mean_power_w.value());
}

TEST(GpuMeter, AddsUpWhatTheGpuDid) {
  const LoadedGpu gpu;
  const GpuMeasurement result = measure_load(gpu, 0, 0.05, 1, 15);
  EXPECT_EQ(result.identity.uuid, "GPU-1");
  EXPECT_EQ(result.peak_power_w, 700);
  EXPECT_EQ(result.min_sm_clock_mhz, 1400);
  EXPECT_EQ(result.max_sm_clock_mhz, 1980);
  EXPECT_NEAR(result.mean_sm_clock_mhz.value(), (10 * 1400 + 4 * 1980) / 14.0, 5);
  EXPECT_EQ(result.max_temperature_c, 60);
  EXPECT_NEAR(result.mean_utilisation_percent.value(), 100 * 10 / 14.0, 1);
  EXPECT_NEAR(result.power_capped_s.value(), 10, 0.1);
  EXPECT_EQ(result.thermally_throttled_s.value(), 0);
  EXPECT_NEAR(result.mean_power_w.value(), 7400 / 14.0, 5);
  EXPECT_NEAR(result.integrated_power_j.value(), 7400, 75);
  EXPECT_TRUE(result.problem.empty());
}

TEST(GpuMeter, IntegratesPowerWhereThereIsNoCounter) {
  GpuMeter meter(identity(), without_counter());
  EXPECT_TRUE(meter.ready());
  const LoadedGpu gpu;
  GpuWindow window = meter.begin(3);
  for (double time_s = 3.05; time_s < 5; time_s += 0.05) {
    GpuSample sample = gpu.sample(time_s);
    sample.energy_j.reset();
    meter.add(sample);
    window.add(sample);
  }
  const GpuMeasurement result = meter.measure(window, 5);
  EXPECT_EQ(result.source, EnergySource::integrated_power);
  EXPECT_NEAR(result.energy_j.value(), 1400, 1e-6);
  EXPECT_NEAR(result.energy_uncertainty_j.value(), 0.07 * 1400, 1e-6);
  EXPECT_EQ(result.problem, "no energy counter before Volta; its energy is that of the power readings");
}

TEST(GpuMeter, DoesNotTakeACounterThatStartedOverForEnergy) {
  GpuMeter meter(identity(), all_features());
  const LoadedGpu gpu;
  double time_s = 0;
  for (; time_s < 1; time_s += 0.05) meter.add(gpu.sample(time_s));
  GpuWindow window = meter.begin(time_s);
  for (; time_s < 4; time_s += 0.05) {
    GpuSample sample = gpu.sample(time_s);
    if (time_s > 2) *sample.energy_j -= gpu.energy_j(2);
    meter.add(sample);
    window.add(sample);
  }
  const GpuMeasurement result = meter.measure(window, time_s);
  EXPECT_EQ(result.source, EnergySource::integrated_power);
  EXPECT_NEAR(result.energy_j.value(), gpu.energy_j(time_s) - gpu.energy_j(1), 40);
  EXPECT_THAT(result.problem, testing::StartsWith("the energy counter shows -"));
}

/// Measures from 1 s to `end_s`. Each sample goes through `spoil` first.
GpuMeasurement measure_spoilt(double end_s, const std::function<void(GpuSample&)>& spoil) {
  GpuMeter meter(identity(), all_features());
  const LoadedGpu gpu{.load_start_s = 0, .load_end_s = 100};
  double time_s = 0.02;
  for (; time_s < 1; time_s += 0.047) meter.add(gpu.sample(time_s));
  GpuWindow window = meter.begin(1);
  for (; time_s < end_s; time_s += 0.047) {
    GpuSample sample = gpu.sample(time_s);
    spoil(sample);
    meter.add(sample);
    window.add(sample);
  }
  return meter.measure(window, end_s);
}

TEST(GpuMeter, KeepsTheCounterWhenAReadingFails) {
  const GpuMeasurement result = measure_spoilt(8, [](GpuSample& sample) {
    if (sample.time_s > 4 && sample.time_s < 4.2) sample.energy_j.reset();
  });
  EXPECT_EQ(result.source, EnergySource::counter);
  EXPECT_TRUE(result.covers_all());
  EXPECT_EQ(result.covered_s, 7);
  EXPECT_NEAR(result.energy_j.value(), 4900, result.energy_uncertainty_j.value() + 10);
  EXPECT_LT(result.energy_uncertainty_j.value(), 40);
}

TEST(GpuMeter, MakesUpNoEnergyForTheTimeAfterAGpuWasLost) {
  const GpuMeasurement result = measure_spoilt(8, [](GpuSample& sample) {
    if (sample.time_s <= 4) return;
    sample.energy_j.reset();
    sample.power_w.reset();
    sample.problem = "GPU-1 is lost";
  });
  EXPECT_EQ(result.source, EnergySource::counter);
  EXPECT_FALSE(result.covers_all());
  EXPECT_NEAR(result.covered_s, 3, 0.05);
  EXPECT_NEAR(result.energy_j.value(), 700 * result.covered_s, result.energy_uncertainty_j.value() + 10);
  EXPECT_NEAR(result.integrated_power_j.value(), 700 * 3, 700 * 0.05);
  EXPECT_NEAR(result.mean_power_w.value(), 700, 10);
}

TEST(GpuMeter, TakesPowerReadingsWhereTheCounterStoppedAnswering) {
  const GpuMeasurement result = measure_spoilt(8, [](GpuSample& sample) {
    if (sample.time_s > 4) sample.energy_j.reset();
  });
  EXPECT_EQ(result.source, EnergySource::integrated_power);
  EXPECT_TRUE(result.covers_all());
  EXPECT_NEAR(result.energy_j.value(), 4900, 1e-6);
  EXPECT_NEAR(result.energy_uncertainty_j.value(), 0.07 * 4900, 1e-6);
}

/// A GPU with a limit of 400 W: 4 s of load, then 4 s of nothing.
struct ShortLoad {
  LoadedGpu gpu{.idle_w = 65, .load_w = 400, .load_start_s = 2, .load_end_s = 6};
  double begin_s = 1.9;
  double end_s = 10;
  std::function<void(GpuSample&)> spoil;

  [[nodiscard]] double true_j() const { return gpu.energy_j(end_s) - gpu.energy_j(begin_s); }
  [[nodiscard]] GpuMeasurement measure() const {
    GpuMeter meter(identity(), all_features(), {.highest_power_w = highest_gpu_power_w(400)});
    std::optional<GpuWindow> window;
    for (double time_s = 0.5; time_s < end_s; time_s += 0.047) {
      if (!window && time_s > begin_s) window = meter.begin(begin_s);
      GpuSample sample = gpu.sample(time_s);
      spoil(sample);
      meter.add(sample);
      if (window) window->add(sample);
    }
    return meter.measure(*window, end_s);
  }
};

/// The power readings have taken the counter's place, with their error and the reason.
void expect_by_power(const ShortLoad& load, const std::string& reason) {
  const GpuMeasurement result = load.measure();
  EXPECT_EQ(result.source, EnergySource::integrated_power);
  EXPECT_TRUE(result.covers_all());
  EXPECT_NEAR(result.energy_j.value(), load.true_j(), 0.03 * load.true_j());
  EXPECT_LE(std::abs(result.energy_j.value() - load.true_j()), result.energy_uncertainty_j.value());
  EXPECT_LT(result.energy_uncertainty_j.value(), 0.15 * load.true_j());
  EXPECT_THAT(result.problem, testing::HasSubstr(reason));
  EXPECT_THAT(result.problem, testing::HasSubstr("its energy is that of the power readings"));
  EXPECT_EQ(result.peak_power_w, 400);
}

TEST(GpuMeter, TakesPowerReadingsWhereTheCounterStandsStill) {
  for (const double from_s : {0.0, 1.0, 1.5, 1.97, 3.0, 5.0, 7.0}) {
    SCOPED_TRACE(from_s);
    double frozen_j = 0;
    expect_by_power({.spoil =
                         [&](GpuSample& sample) {
                           if (sample.time_s <= from_s) frozen_j = *sample.energy_j;
                           if (sample.time_s > from_s) sample.energy_j = frozen_j;
                         }},
                    "shows no energy for");
  }
}

TEST(GpuMeter, TakesPowerReadingsWhereTheCounterStoodStillAndLostEnergy) {
  double frozen_j = 0;
  double lost_j = 0;
  expect_by_power({.spoil =
                       [&](GpuSample& sample) {
                         if (sample.time_s <= 3) frozen_j = *sample.energy_j;
                         if (sample.time_s > 3 && sample.time_s < 5) lost_j = *sample.energy_j - frozen_j;
                         if (sample.time_s > 3) *sample.energy_j -= lost_j;
                       }},
                  "the power readings make");
}

TEST(GpuMeter, TakesPowerReadingsWhereTheCounterJumps) {
  for (const double jump_j : {1e6, 1e3, -1e6, 2.8e11}) {
    SCOPED_TRACE(jump_j);
    expect_by_power({.spoil =
                         [&](GpuSample& sample) {
                           if (sample.time_s > 4) *sample.energy_j += jump_j;
                         }},
                    jump_j > 0 ? "W are possible" : "shows -");
  }
}

TEST(GpuMeter, TakesPowerReadingsWhereTheCounterShowsWhatNoGpuDraws) {
  for (const double factor : {0.001, 5.0}) {
    SCOPED_TRACE(factor);
    expect_by_power({.spoil = [&](GpuSample& sample) { *sample.energy_j *= factor; }}, "the energy counter shows");
  }
}

/// It is not known which of the two is right: the error covers both, and the truth.
void expect_either(const ShortLoad& load, EnergySource source, const std::string& reason) {
  const GpuMeasurement result = load.measure();
  EXPECT_EQ(result.source, source);
  EXPECT_LE(std::abs(result.energy_j.value() - load.true_j()), result.energy_uncertainty_j.value());
  EXPECT_LE(std::abs(result.integrated_power_j.value() - *result.energy_j), *result.energy_uncertainty_j);
  EXPECT_THAT(result.problem, testing::HasSubstr("the power readings make"));
  EXPECT_THAT(result.problem, testing::HasSubstr(reason));
}

TEST(GpuMeter, CoversBothWhereCounterAndPowerReadingsContradictEachOther) {
  for (const double factor : {0.5, 0.57, 1.8}) {
    SCOPED_TRACE(factor);
    expect_either({.spoil = [&](GpuSample& sample) { *sample.energy_j *= factor; }}, EnergySource::integrated_power,
                  "it is not known which of them is right");
    expect_either({.spoil = [&](GpuSample& sample) { *sample.power_w *= factor; }}, EnergySource::integrated_power,
                  "it is not known which of them is right");
  }
  expect_either({.spoil = [&](GpuSample& sample) { sample.power_w = 65; }}, EnergySource::counter, "never change");
}

TEST(GpuMeter, CoversBothWhereTheCounterHalvesLateInAWindow) {
  const auto load_that_halves = [](double from_s) {
    const double at_j = LoadedGpu{.idle_w = 65, .load_w = 400, .load_start_s = 2, .load_end_s = 6}.energy_j(from_s);
    return ShortLoad{.end_s = 6, .spoil = [at_j](GpuSample& sample) {
                       if (*sample.energy_j > at_j) *sample.energy_j = at_j + (*sample.energy_j - at_j) / 2;
                     }};
  };
  for (const double from_s : {2.5, 4.0}) {
    SCOPED_TRACE(from_s);
    expect_either(load_that_halves(from_s), EnergySource::integrated_power, "it is not known which of them is right");
  }
  const ShortLoad late = load_that_halves(4.8);
  const GpuMeasurement result = late.measure();
  EXPECT_LE(std::abs(result.energy_j.value() - late.true_j()), result.energy_uncertainty_j.value());
}

/// As on a busy machine, where readings come when the load rests.
TEST(GpuMeter, HoldsNoFewUnevenPowerReadingsAgainstTheCounter) {
  GpuMeter meter(identity(), all_features(), {.highest_power_w = highest_gpu_power_w(400)});
  const LoadedGpu gpu{.idle_w = 65, .load_w = 400, .load_start_s = 0, .load_end_s = 20};
  constexpr std::array kGapsS = {0.03, 0.4, 0.05, 0.3, 0.02, 0.25};
  std::optional<GpuWindow> window;
  std::size_t reading = 0;
  for (double time_s = 0.5; time_s < 6; time_s += kGapsS.at(reading++ % kGapsS.size())) {
    if (!window && time_s > 5) window = meter.begin(time_s);
    GpuSample sample = gpu.sample(time_s);
    *sample.power_w *= 0.5;
    meter.add(sample);
    if (window) window->add(sample);
  }
  EXPECT_THAT(meter.measure(*window, 6).problem, testing::Not(testing::HasSubstr("the power readings make")));
}

TEST(GpuMeter, WidensTheErrorWhereTheTwoDifferByMoreThanTheirErrors) {
  const ShortLoad load{.spoil = [](GpuSample& sample) { *sample.energy_j *= 0.93; }};  // no contradiction yet
  const GpuMeasurement result = load.measure();
  EXPECT_EQ(result.source, EnergySource::counter);
  EXPECT_LE(std::abs(result.energy_j.value() - load.true_j()), result.energy_uncertainty_j.value());
}

TEST(GpuMeter, KeepsTheCounterWherePowerReadingsCannotBe) {
  const std::function<void(GpuSample&)> spoils[] = {
      [](GpuSample& sample) { sample.power_w = 0; },
      [](GpuSample& sample) { *sample.power_w *= 1000; },
      [](GpuSample& sample) { *sample.power_w /= 1000; },
      [](GpuSample& sample) {
        if (sample.time_s > 4) sample.power_w = 0;
      },
  };
  for (const auto& spoil : spoils) {
    const ShortLoad load{.spoil = spoil};
    const GpuMeasurement result = load.measure();
    EXPECT_EQ(result.source, EnergySource::counter);
    EXPECT_NEAR(result.energy_j.value(), load.true_j(), 0.02 * load.true_j());
    EXPECT_LT(result.energy_uncertainty_j.value(), 0.05 * load.true_j());
    EXPECT_THAT(result.problem, testing::HasSubstr("a power reading is "));
    EXPECT_LT(result.peak_power_w.value_or(0), 800);
  }
}

TEST(GpuMeter, KnowsNoEnergyWhereNeitherCanBe) {
  const ShortLoad load{.spoil = [](GpuSample& sample) {
    sample.power_w = 0;
    sample.energy_j = 5e6;
  }};
  const GpuMeasurement result = load.measure();
  EXPECT_FALSE(result.energy_j) << "not 0";
  EXPECT_THAT(result.problem, testing::HasSubstr("shows no energy"));
}

TEST(GpuMeter, TakesNoShortWindowFromACounterThatHasContradictedThem) {
  ShortLoad load{.begin_s = 8.9, .end_s = 9, .spoil = [](GpuSample& sample) { *sample.energy_j *= 0.57; }};
  const GpuMeasurement result = load.measure();
  EXPECT_EQ(result.source, EnergySource::integrated_power);
  EXPECT_NEAR(result.energy_j.value(), load.true_j(), 1);
  EXPECT_FALSE(result.energy_uncertainty_j) << "two readings say nothing of their error";
}

TEST(GpuMeter, StatesASmallerDifferenceAndWidensTheError) {
  const ShortLoad load{.spoil = [](GpuSample& sample) { *sample.energy_j *= 1.25; }};
  const GpuMeasurement result = load.measure();
  EXPECT_EQ(result.source, EnergySource::counter);
  EXPECT_GE(result.energy_uncertainty_j.value(), 0.2 * load.true_j());
  EXPECT_THAT(result.problem, testing::HasSubstr("the power readings make"));
}

TEST(GpuMeter, KeepsTheCounterOfAWholeModule) {
  GpuMeter meter(identity(), all_features(), {.compares_power = false});
  const LoadedGpu gpu;
  GpuWindow window = meter.begin(0);
  for (double time_s = 0.02; time_s < 20; time_s += 0.047) {
    GpuSample sample = gpu.sample(time_s);
    *sample.energy_j *= 1.8;
    meter.add(sample);
    if (time_s < 1) {
      window = meter.begin(time_s);
    } else {
      window.add(sample);
    }
  }
  const GpuMeasurement result = meter.measure(window, 20);
  EXPECT_EQ(result.source, EnergySource::counter);
  EXPECT_EQ(result.problem, "");
}

TEST(CpuMeasurement, IsNotKnownOverATimeInWhichTheCounterWasSetAside) {
  const auto reading = [](double energy_j, long set_aside, std::string problem) {
    gpu::RaplReading package;
    package.zone = "package-0";
    package.energy_j = energy_j;
    package.set_aside = set_aside;
    package.problem = std::move(problem);
    return package;
  };
  EXPECT_EQ(cpu_measurement(reading(10, 1, ""), reading(70, 1, "")).energy_j, 60);
  EXPECT_EQ(cpu_measurement(reading(0, 0, "has not moved yet"), reading(70, 0, "")).energy_j, 70);
  for (const CpuMeasurement& unknown : {cpu_measurement(reading(10, 0, ""), reading(10, 1, "shows no energy for 2 s")),
                                        cpu_measurement(reading(10, 0, ""), reading(70, 1, "")),
                                        cpu_measurement(reading(10, 0, "cannot be read"), reading(70, 0, ""))}) {
    EXPECT_EQ(unknown.zone, "package-0");
    EXPECT_FALSE(unknown.energy_j) << "not 0";
    EXPECT_NE(unknown.problem, "");
  }
}

TEST(WindowMeasurement, HasNoUncertaintyWhenOneOfItsPartsHasNone) {
  GpuMeasurement counted;
  counted.time_s = counted.covered_s = 2;
  counted.energy_j = 100;
  counted.energy_uncertainty_j = 1;
  GpuMeasurement lost = counted;
  lost.covered_s = 1;
  GpuMeasurement integrated = counted;
  integrated.energy_uncertainty_j.reset();
  WindowMeasurement window;
  window.gpus = {counted, lost};
  EXPECT_EQ(window.gpu_energy_uncertainty_j(), 2);
  EXPECT_FALSE(window.gpu_energy_covers_all());
  window.gpus = {counted, integrated};
  EXPECT_EQ(window.gpu_energy_j(), 200);
  EXPECT_FALSE(window.gpu_energy_uncertainty_j());
  EXPECT_TRUE(window.gpu_energy_covers_all());
  window.gpus = {counted, GpuMeasurement{}};
  EXPECT_EQ(window.gpu_energy_uncertainty_j(), 1);
  EXPECT_FALSE(window.gpu_energy_covers_all()) << "one reports nothing";
}

TEST(GpuMeter, SaysWhatFailedAndGoesOn) {
  GpuMeter meter(identity(), all_features());
  const LoadedGpu gpu;
  double time_s = 0;
  for (; time_s < 1; time_s += 0.05) meter.add(gpu.sample(time_s));
  GpuWindow window = meter.begin(time_s);
  GpuSample lost;
  lost.time_s = time_s + 0.01;
  lost.problem = "GPU-1 is lost";
  meter.add(lost);
  window.add(lost);
  const GpuMeasurement result = meter.measure(window, time_s + 0.02);
  EXPECT_EQ(result.problem, "GPU-1 is lost");
  EXPECT_FALSE(result.energy_j) << "nothing says what it used since";
}

TEST(GpuMeter, LeavesOutReadingsFromBeforeTheWindow) {
  GpuWindow window(10, std::nullopt);
  window.add(LoadedGpu{}.sample(9.99));
  EXPECT_EQ(window.measure(11, std::nullopt).readings, 0);
}

}  // namespace

}  // namespace lowgear::measure
