#include "planning/profile/energy_regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/core/error_of.h"
#include "planning/profile/made_up_recording.h"

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr CellKey kForward1000{0, OpKind::forward, 1000};
constexpr CellKey kBackward1000{0, OpKind::backward, 1000};

MadeUpProcess process_at(const std::vector<int>& clocks_mhz) {
  MadeUpProcess process;
  for (const int clock_mhz : clocks_mhz) {
    process.power_w[{0, OpKind::forward, clock_mhz}] = 100 + 0.2 * clock_mhz;
    process.power_w[{0, OpKind::backward, clock_mhz}] = 130 + 0.25 * clock_mhz;
  }
  return process;
}

/// Windows of random times whose energies are exact.
EnergyWindows exact_windows(std::size_t cells, std::size_t count, double blocking_w, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> time_s(0, 0.05);
  EnergyWindows windows;
  for (std::size_t cell = 0; cell < cells; ++cell) windows.cells.push_back({0, OpKind::forward, 1000 + int(cell)});
  for (std::size_t i = 0; i < count; ++i) {
    EnergyWindow window;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      window.busy.push_back({cell, time_s(random)});
      window.energy_j += window.busy.back().time_s * (200 + 10 * static_cast<double>(cell));
    }
    window.waiting_s = time_s(random);
    window.energy_j += window.waiting_s * blocking_w;
    windows.windows.push_back(window);
  }
  return windows;
}

TEST(FitEnergy, RecoversExactPowers) {
  const EnergyRegression fit = fit_energy(exact_windows(8, 100, 75, 1), {});
  ASSERT_EQ(fit.cells.size(), 8);
  for (std::size_t cell = 0; cell < 8; ++cell) {
    EXPECT_NEAR(fit.cells[cell].power_w, 200 + 10 * static_cast<double>(cell), 1e-6);
    EXPECT_LT(fit.cells[cell].error_w, 1e-6);
    EXPECT_TRUE(fit.cells[cell].is_identified);
  }
  ASSERT_TRUE(fit.blocking.has_value());
  EXPECT_NEAR(fit.blocking->power_w, 75, 1e-6);
}

TEST(FitEnergy, TakesBlockingPowerThatWasMeasuredApart) {
  const EnergyRegression fit = fit_energy(exact_windows(3, 50, 75, 2), 75);
  EXPECT_FALSE(fit.blocking.has_value());
  EXPECT_NEAR(fit.cells[1].power_w, 210, 1e-6);
}

TEST(FitEnergy, NeverGivesAPowerBelowZero) {
  EnergyWindows windows = exact_windows(3, 60, 75, 3);
  for (EnergyWindow& window : windows.windows) window.energy_j -= 260 * window.busy[1].time_s;  // 210 - 260 < 0
  const EnergyRegression fit = fit_energy(windows, {});
  EXPECT_EQ(fit.cells[1].power_w, 0);
  EXPECT_GT(fit.residual_j, 0);
}

TEST(FitEnergy, SaysWhichCellsCannotBeToldApart) {
  EnergyWindows windows = exact_windows(4, 60, 75, 4);
  for (EnergyWindow& window : windows.windows) {
    window.energy_j += 210 * (2 * window.busy[0].time_s - window.busy[1].time_s);
    window.busy[1].time_s = 2 * window.busy[0].time_s;  // always together, always twice as long
    window.energy_j -= 220 * window.busy[2].time_s;
    window.busy[2].time_s = 0;  // never ran
  }
  const EnergyRegression fit = fit_energy(windows, {});
  EXPECT_FALSE(fit.cells[0].is_identified);
  EXPECT_FALSE(fit.cells[1].is_identified);
  EXPECT_FALSE(fit.cells[2].is_identified);
  EXPECT_TRUE(fit.cells[3].is_identified);
  EXPECT_NEAR(fit.cells[3].power_w, 230, 1e-6);
  EXPECT_TRUE(fit.blocking->is_identified);
}

TEST(FitEnergy, StatesErrorsThatCoverTheTruth) {
  // Errors as a counter makes them: what one window has too much, the next has too little.
  int covered = 0;
  int cells = 0;
  double mean_square = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    EnergyWindows windows = exact_windows(4, 300, 75, seed);
    std::mt19937_64 random(1000 + seed);
    std::normal_distribution<double> error_j(0, 1);
    double before_j = 0;
    for (EnergyWindow& window : windows.windows) {
      const double end_j = error_j(random);
      window.energy_j += end_j - before_j;
      before_j = end_j;
    }
    const EnergyRegression fit = fit_energy(windows, {});
    for (std::size_t cell = 0; cell < 4; ++cell, ++cells) {
      const double off = (fit.cells[cell].power_w - 200 - 10 * static_cast<double>(cell)) / fit.cells[cell].error_w;
      mean_square += off * off;
      covered += std::abs(off) <= 1.96 ? 1 : 0;
    }
  }
  EXPECT_GE(covered, 0.9 * cells);
  EXPECT_LE(mean_square / cells, 1.5) << "errors are stated too small";
  EXPECT_GE(mean_square / cells, 0.3) << "errors are stated too large";
}

TEST(FitEnergy, RefusesFewerWindowsThanCells) {
  EXPECT_THAT(error_of([] { (void)fit_energy(exact_windows(4, 5, 75, 1), {}); }),
              HasSubstr("5 windows for 5 unknown powers; record more iterations"));
}

TEST(EnergyWindows, HoldAllTimeAndEnergyBetweenTheirEnds) {
  const Recording recording = process_at({1000}).record({1000}, 20, 4);
  const EnergyWindows windows = energy_windows(recording);
  ASSERT_GT(windows.windows.size(), 100);
  double energy_j = 0;
  double time_s = 0;
  for (const EnergyWindow& window : windows.windows) {
    energy_j += window.energy_j;
    time_s += window.waiting_s;
    for (const auto& share : window.busy) time_s += share.time_s;
    EXPECT_GE(window.waiting_s, 0);
  }
  const double span_s = recording.units.back().end_s - recording.units.front().start_s;
  EXPECT_NEAR(time_s, span_s, 0.3);
  EXPECT_LE(time_s, span_s);
  EXPECT_NEAR(energy_j / time_s, 300, 30);
}

TEST(EnergyWindows, FindTheStepsOfASteadyCounterBetweenReadings) {
  MadeUpProcess process = process_at({1000});
  const EnergyWindows windows = energy_windows(process.record({1000}, 60, 4));
  double worst_s = 0;
  for (const EnergyWindow& window : windows.windows) {
    double time_s = window.waiting_s;
    for (const auto& share : window.busy) time_s += share.time_s;
    worst_s = std::max(worst_s, std::abs(time_s - 0.1));
  }
  EXPECT_LT(worst_s, 0.05) << "steps of 100 ms, read every 50 ms";
}

/// A steady reader sees steps of 100 ms as 94 and 141 ms.
TEST(EnergyWindows, FindTheStepsBetweenSteadyReadings) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    MadeUpProcess process = process_at({1000});
    process.reading_period_s = 0.047;
    process.reading_jitter = 0;
    process.seed = seed;
    double squares = 0;
    const EnergyWindows windows = energy_windows(process.record({1000}, 60, 4));
    for (const EnergyWindow& window : windows.windows) {
      double time_s = window.waiting_s;
      for (const auto& share : window.busy) time_s += share.time_s;
      squares += std::pow(time_s - 0.1, 2);
    }
    EXPECT_LT(std::sqrt(squares / static_cast<double>(windows.windows.size())), 0.006) << seed;
  }
}

TEST(FitEnergy, FindsThePowerOfWaitingAtEachClock) {
  const std::vector<int> clocks_mhz = {1400, 1200, 1000};
  MadeUpProcess process = process_at(clocks_mhz);
  process.blocking_by_clock_w = {{1400, 120}, {1200, 90}, {1000, 70}};
  process.reading_period_s = 0.047;
  process.reading_jitter = 0;
  const EnergyWindows windows = energy_windows(process.record(clocks_mhz, 40, 8));
  const EnergyRegression fit = fit_energy(windows, {});
  ASSERT_EQ(fit.blocking_by_clock.size(), 3);
  for (const auto& [clock_mhz, power] : fit.blocking_by_clock) {
    EXPECT_NEAR(power.power_w, process.blocking_by_clock_w.at(clock_mhz), 5) << clock_mhz;
  }
  for (std::size_t i = 0; i < windows.cells.size(); ++i) {
    EXPECT_NEAR(fit.cells[i].power_w / process.power_w.at(windows.cells[i]), 1, 0.015);
  }
  EXPECT_GT(fit.blocking->power_w, 80);
  EXPECT_LT(fit.blocking->power_w, 110);
}

TEST(FitEnergy, TakesOnePowerOfWaitingWhereClocksCannotBeToldApart) {
  EnergyWindows windows = exact_windows(2, 60, 75, 6);
  windows.waiting_clocks_mhz = {1000, 1001};  // nothing waited at the second
  for (EnergyWindow& window : windows.windows) window.waiting = {{0, window.waiting_s}};
  const EnergyRegression fit = fit_energy(windows, {});
  EXPECT_TRUE(fit.blocking_by_clock.empty());
  EXPECT_NEAR(fit.blocking->power_w, 75, 1e-6);
}

TEST(EnergyWindows, RefuseUnitsThatOverlap) {
  Recording recording = process_at({1000}).record({1000}, 5, 2);
  recording.units[3].start_s = recording.units[2].start_s;
  EXPECT_THAT(error_of([&] { (void)energy_windows(recording); }),
              AllOf(HasSubstr("made up: the backward of stage 0"), HasSubstr("overlap")));
}

TEST(EnergyWindows, RefuseTooManyCells) {
  Recording recording;
  for (int i = 0; i <= static_cast<int>(kMaxCells); ++i) {
    recording.units.push_back({0, 0, OpKind::forward, 0, i * 1.0, i + 0.5, i + 1});
  }
  EXPECT_THAT(error_of([&] { (void)energy_windows(recording); }), HasSubstr("more than 1024 combinations"));
}

TEST(EnergyWindows, AreNoneWithoutUnitsOrSamples) {
  EXPECT_TRUE(energy_windows(Recording{}).windows.empty());
  Recording recording = process_at({1000}).record({1000}, 2, 2);
  recording.samples.clear();
  EXPECT_TRUE(energy_windows(recording).windows.empty());
}

/// From a recording to powers, through the counter's steps and a reader at 20 Hz.
TEST(FitEnergy, FindsThePowersOfARecordedProcess) {
  const std::vector<int> clocks_mhz = {1400, 1200, 1000};
  double mean_square = 0;
  double relative_square = 0;
  int cells = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    MadeUpProcess process = process_at(clocks_mhz);
    process.power_noise = 0.02;
    process.seed = seed;
    const EnergyWindows windows = energy_windows(process.record(clocks_mhz, 40, 8));
    const EnergyRegression fit = fit_energy(windows, {});
    for (std::size_t i = 0; i < windows.cells.size(); ++i, ++cells) {
      const double truth_w = process.power_w.at(windows.cells[i]);
      EXPECT_NEAR(fit.cells[i].power_w / truth_w, 1, 0.06) << seed;
      EXPECT_LT(fit.cells[i].error_w, 0.025 * truth_w);
      relative_square += std::pow(fit.cells[i].power_w / truth_w - 1, 2);
      const double off = (fit.cells[i].power_w - truth_w) / fit.cells[i].error_w;
      mean_square += off * off;
    }
    EXPECT_NEAR(fit.blocking->power_w, process.blocking_w, 12) << "pauses of 10 ms at a counter of 100 ms: " << seed;
  }
  EXPECT_LT(std::sqrt(relative_square / cells), 0.02);
  EXPECT_LT(mean_square / cells, 4) << "errors are stated too small";
}

TEST(FitEnergy, FindsThemThroughACounterThatIsReadAtOnceOnChange) {
  MadeUpProcess process = process_at({1000});
  process.reading_period_s = 1e-3;
  Recording recording = process.record({1000}, 100, 8);
  recording.sampling = CounterSampling::on_change;
  const EnergyWindows windows = energy_windows(recording);
  ASSERT_EQ(windows.cells, (std::vector{kForward1000, kBackward1000}));
  const EnergyRegression fit = fit_energy(windows, {});
  EXPECT_NEAR(fit.cells[0].power_w, 300, 2);
  EXPECT_NEAR(fit.cells[1].power_w, 380, 2);
  EXPECT_NEAR(fit.blocking->power_w, 80, 2);
}

TEST(FindEnergyShift, IsThatOfTheSamplesAgainstTheUnits) {
  MadeUpProcess process;
  process.power_w = {{{0, OpKind::forward, 1000}, 300}, {{0, OpKind::backward, 1000}, 400}};
  const Recording clean = process.record({1000}, 40, 8);
  EXPECT_EQ(find_energy_shift_s(clean, {}), 0);
  for (const double late_s : {-0.25, 0.08, 0.2}) {
    Recording late = clean;
    for (EnergySample& sample : late.samples) sample.time_s += late_s;
    EXPECT_NEAR(find_energy_shift_s(late, {}), -late_s, 0.02);
  }
}

TEST(FindEnergyShift, IsNoneWhereAShiftChangesNothing) {
  MadeUpProcess process;
  process.blocking_w = 300;
  process.power_w = {{{0, OpKind::forward, 1000}, 300}, {{0, OpKind::backward, 1000}, 300}};
  Recording recording = process.record({1000}, 40, 8);
  for (EnergySample& sample : recording.samples) sample.time_s += 0.2;
  EXPECT_EQ(find_energy_shift_s(recording, {}), 0);
}

}  // namespace
}  // namespace lowgear::profile
