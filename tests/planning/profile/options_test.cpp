#include "planning/profile/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::profile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Measurements of small whole numbers, so that ties abound and all arithmetic on them is exact.
std::vector<Measurement> random_measurements(std::mt19937_64& random, int count, int range) {
  std::uniform_int_distribution<int> value(1, range);
  std::vector<Measurement> measurements;
  for (int clock_mhz = count; clock_mhz >= 1; --clock_mhz) {
    measurements.push_back({clock_mhz, static_cast<double>(value(random)), static_cast<double>(value(random))});
  }
  return measurements;
}

std::vector<int> clocks_of(const std::vector<Option>& options) {
  std::vector<int> clocks_mhz;
  clocks_mhz.reserve(options.size());
  for (const Option& option : options) clocks_mhz.push_back(option.clock_mhz);
  return clocks_mhz;
}

/// The clocks that no other measurement beats, by comparing every pair.
std::vector<int> undominated_clocks(const std::vector<Measurement>& measurements, double blocking_power_w) {
  std::vector<Measurement> kept;
  const auto effective_j = [&](const Measurement& m) { return m.energy_j - blocking_power_w * m.time_s; };
  for (const Measurement& own : measurements) {
    const bool beaten = std::any_of(measurements.begin(), measurements.end(), [&](const Measurement& other) {
      const bool no_worse = other.time_s <= own.time_s && effective_j(other) <= effective_j(own);
      const bool same = other.time_s == own.time_s && effective_j(other) == effective_j(own);
      return same ? other.clock_mhz < own.clock_mhz : no_worse;
    });
    if (!beaten) kept.push_back(own);
  }
  std::sort(kept.begin(), kept.end(), [](const Measurement& a, const Measurement& b) { return a.time_s < b.time_s; });
  std::vector<int> clocks_mhz;
  clocks_mhz.reserve(kept.size());
  for (const Measurement& measurement : kept) clocks_mhz.push_back(measurement.clock_mhz);
  return clocks_mhz;
}

/// The options that lie strictly below every chord between one before and one after.
std::vector<std::size_t> below_all_chords(const std::vector<Option>& options) {
  std::vector<std::size_t> vertices;
  for (std::size_t at = 0; at < options.size(); ++at) {
    bool below = true;
    for (std::size_t before = 0; before < at; ++before) {
      for (std::size_t after = at + 1; after < options.size(); ++after) {
        const Option& a = options[before];
        const Option& b = options[after];
        const double share = (options[at].time_s - a.time_s) / (b.time_s - a.time_s);
        const double chord_j = a.effective_energy_j + share * (b.effective_energy_j - a.effective_energy_j);
        // Chords of small whole numbers are multiples of 1/range apart, far more than the rounding of `share`.
        if (options[at].effective_energy_j > chord_j - 1e-9) below = false;
      }
    }
    if (below) vertices.push_back(at);
  }
  return vertices;
}

TEST(ParetoOptions, FiltersOnEffectiveEnergy) {
  // 1200 MHz uses more energy than 1305 MHz, but waits less at 80 W: 25 - 8 = 17, 21 - 12 = 9, 22 - 16 = 6.
  const std::vector<Measurement> measurements = {{1410, 0.1, 25}, {1305, 0.15, 21}, {1200, 0.2, 22}};
  EXPECT_EQ(clocks_of(pareto_options(measurements, 80)), (std::vector{1410, 1305, 1200}));
  EXPECT_EQ(clocks_of(pareto_options(measurements, 0)), (std::vector{1410, 1305}));
  const Option slowest = pareto_options(measurements, 80).back();
  EXPECT_EQ(slowest.time_s, 0.2);
  EXPECT_EQ(slowest.energy_j, 22);
  EXPECT_DOUBLE_EQ(slowest.effective_energy_j, 6);
}

TEST(ParetoOptions, KeepsTheLowerEnergyOfEqualTimesAndThenTheLowerClock) {
  EXPECT_EQ(clocks_of(pareto_options(std::vector<Measurement>{{1410, 0.1, 25}, {1305, 0.1, 24}, {1200, 0.1, 26}}, 80)),
            std::vector{1305});
  EXPECT_EQ(clocks_of(pareto_options(std::vector<Measurement>{{1410, 0.1, 25}, {1305, 0.1, 25}}, 80)),
            std::vector{1305});
}

TEST(ParetoOptions, KeepsTheFasterOfEqualEffectiveEnergies) {
  EXPECT_EQ(clocks_of(pareto_options(std::vector<Measurement>{{1410, 0.25, 30}, {1305, 0.5, 50}}, 80)),
            std::vector{1410});
}

TEST(ParetoOptions, TakesOneOptionTwoAndNone) {
  EXPECT_EQ(clocks_of(pareto_options(std::vector<Measurement>{{1410, 0.1, 25}}, 80)), std::vector{1410});
  EXPECT_EQ(clocks_of(pareto_options(std::vector<Measurement>{{1410, 0.1, 25}, {1305, 0.2, 20}}, 80)),
            (std::vector{1410, 1305}));
  EXPECT_TRUE(pareto_options({}, 80).empty());
}

TEST(ParetoOptions, TakesAnOpThatNoClockChanges) {
  const std::vector<Measurement> constant = {{1410, 0.1, 8}, {1305, 0.1, 8}, {1200, 0.1, 8}};
  EXPECT_EQ(clocks_of(pareto_options(constant, 83.64)), std::vector{1200});
}

TEST(ParetoOptions, EqualsComparingEveryPair) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 3000; ++round) {
    const auto measurements = random_measurements(random, 1 + round % 40, round % 2 == 0 ? 12 : 1000);
    const double blocking_power_w = round % 5;
    const std::vector<Option> options = pareto_options(measurements, blocking_power_w);
    ASSERT_EQ(clocks_of(options), undominated_clocks(measurements, blocking_power_w));
    for (std::size_t i = 1; i < options.size(); ++i) {
      ASSERT_LT(options[i - 1].time_s, options[i].time_s);
      ASSERT_GT(options[i - 1].effective_energy_j, options[i].effective_energy_j);
    }
  }
}

TEST(LowerConvexHull, LeavesOutWhatLiesOnOrAboveAChord) {
  const std::vector<Option> options = {{5, 0, 0, 10}, {4, 1, 0, 9}, {3, 2, 0, 4}, {2, 3, 0, 3}, {1, 4, 0, 2}};
  EXPECT_THAT(lower_convex_hull(options), ElementsAre(0, 2, 4)) << "1 lies above 0-2, and 3 on 2-4";
}

TEST(LowerConvexHull, KeepsOneOptionAndTwo) {
  const std::vector<Option> options = {{2, 1, 0, 5}, {1, 2, 0, 4}};
  EXPECT_THAT(lower_convex_hull(options), ElementsAre(0, 1));
  EXPECT_THAT(lower_convex_hull(std::span(options).first(1)), ElementsAre(0));
  EXPECT_TRUE(lower_convex_hull({}).empty());
}

TEST(LowerConvexHull, EqualsComparingWithEveryChord) {
  std::mt19937_64 random(19);
  for (int round = 0; round < 2000; ++round) {
    const int range = round % 2 == 0 ? 30 : 1000;
    const std::vector<Option> options = pareto_options(random_measurements(random, 60, range), round % 4);
    ASSERT_EQ(lower_convex_hull(options), below_all_chords(options));
  }
}

TEST(LowerConvexHull, FallsEverLessSteeply) {
  std::mt19937_64 random(23);
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  for (int round = 0; round < 500; ++round) {
    std::vector<Measurement> measurements;
    for (int clock_mhz = 1410; clock_mhz >= 855; clock_mhz -= 15) {
      const double relative = clock_mhz / 1410.0;
      measurements.push_back(
          {clock_mhz, 0.05 / relative * noise(random), (9 + 15 * relative * relative) * noise(random)});
    }
    const std::vector<Option> options = pareto_options(measurements, 83.64);
    const std::vector<std::size_t> hull = lower_convex_hull(options);
    ASSERT_EQ(hull.front(), 0);
    ASSERT_EQ(hull.back(), options.size() - 1);
    double last_slope_w = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < hull.size(); ++i) {
      const Option& a = options[hull[i - 1]];
      const Option& b = options[hull[i]];
      const double slope_w = (b.effective_energy_j - a.effective_energy_j) / (b.time_s - a.time_s);
      ASSERT_GT(slope_w, last_slope_w);
      last_slope_w = slope_w;
    }
  }
}

std::string power_error_of(const std::string& text, int stages) {
  return error_of([&] { (void)read_blocking_power(text, "b.csv", stages); });
}

TEST(ReadBlockingPower, ReadsStagesInAnyOrder) {
  EXPECT_THAT(read_blocking_power("blocking_power,stage\r\n70.5,1\r\n0,0\r\n80,2", "b.csv", 3),
              ElementsAre(0, 70.5, 80));
}

TEST(ReadBlockingPower, RefusesMissingSurplusAndDuplicateStages) {
  EXPECT_EQ(power_error_of("stage,blocking_power\n0,80\n2,80\n", 3),
            "b.csv: stage 1 has no blocking power; give one row for each of the stages 0 to 2");
  EXPECT_EQ(power_error_of("stage,blocking_power\n0,80\n3,80\n", 3),
            "b.csv:3:1: stage 3 is not in 0 to 2; give one row for each stage of the pipeline");
  EXPECT_THAT(power_error_of("stage,blocking_power\n-1,80\n", 3), StartsWith("b.csv:2:1: stage -1 is not in 0 to 2"));
  EXPECT_EQ(power_error_of("stage,blocking_power\n0,80\n0,80\n", 1),
            "b.csv:3:1: stage 0 occurs twice; keep one of its rows");
}

TEST(ReadBlockingPower, RefusesWhatIsNoPower) {
  EXPECT_EQ(power_error_of("stage,blocking_power\n0,-1\n", 1), "b.csv:2:3: blocking power -1 W is not in 0 to 100000");
  EXPECT_THAT(power_error_of("stage,blocking_power\n0,1e6\n", 1), StartsWith("b.csv:2:3: blocking power 1000000 W"));
  EXPECT_THAT(power_error_of("stage,blocking_power\n0,nan\n", 1),
              StartsWith("b.csv:2:3: blocking_power: expected a number, found \"nan\""));
  EXPECT_THAT(power_error_of("stage,power\n0,80\n", 1), HasSubstr("there is no column \"blocking_power\""));
  EXPECT_THAT(power_error_of("", 1), StartsWith("b.csv: is empty"));
}

TEST(ReadBlockingPower, RefusesAnAbsurdNumberOfStages) {
  for (const int stages : {0, -1, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(power_error_of("stage,blocking_power\n", stages), HasSubstr("stages are not in 1 to 65536"));
  }
}

}  // namespace
}  // namespace lowgear::profile
