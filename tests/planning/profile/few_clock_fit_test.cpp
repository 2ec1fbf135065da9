#include "planning/profile/few_clock_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/profile_file.h"

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> every_15_mhz(int highest_mhz, int lowest_mhz) {
  std::vector<int> clocks_mhz;
  for (int clock_mhz = highest_mhz; clock_mhz >= lowest_mhz; clock_mhz -= 15) clocks_mhz.push_back(clock_mhz);
  return clocks_mhz;
}

StageProfile at_clocks(const StageProfile& profile, const std::vector<int>& clocks_mhz) {
  StageProfile part(profile.stages());
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const int clock_mhz : clocks_mhz) part.add(stage, kind, profile.at_clock(stage, kind, clock_mhz));
    }
  }
  return part;
}

/// One stage whose forward is exactly of the model.
struct Truth {
  ClockModel model;
  StageProfile profile{1};

  explicit Truth(double throttle_mhz, double noise = 0, unsigned seed = 1)
      : model{0, OpKind::forward, 0.01, 50, 60, 0.2, 1e-3, 1080, throttle_mhz} {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> error(0, noise);
    for (const int clock_mhz : every_15_mhz(1410, 855)) {
      const double time_s = model.time_s(clock_mhz) * (1 + error(random));
      const double power_w = model.power_w(clock_mhz) * (1 + error(random));
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        profile.add(0, kind, {clock_mhz, time_s, time_s * power_w});
      }
    }
  }
};

TEST(PredictableClocks, LieBetweenThoseThatEverythingWasMeasuredAt) {
  StageProfile profile(2);
  for (const int clock_mhz : {1410, 1200, 900}) profile.add(0, OpKind::forward, {clock_mhz, 1, 100});
  for (const int clock_mhz : {1350, 855}) profile.add(1, OpKind::backward, {clock_mhz, 1, 100});
  const std::vector<int> clocks_mhz = {855, 900, 1350, 1365, 1000};
  EXPECT_THAT(predictable_clocks(profile, clocks_mhz), ElementsAre(900, 1350, 1000));
}

TEST(FitFewClocks, FindsTheCurvesOfAnExactModel) {
  const Truth truth(1410);
  const FewClockFit fit =
      fit_few_clocks(at_clocks(truth.profile, {1410, 1305, 1185, 1080, 960, 855}), every_15_mhz(1410, 855));
  ASSERT_EQ(fit.models.size(), 2);
  EXPECT_NEAR(fit.models[0].fixed_time_s, 0.01, 1e-6);
  EXPECT_NEAR(fit.models[0].time_clock_s_mhz, 50, 1e-3);
  EXPECT_EQ(fit.models[0].throttle_mhz, 1410);
  for (const FilledRow& row : fit.rows) {
    const Measurement& exact = truth.profile.at_clock(0, row.kind, row.value.clock_mhz);
    EXPECT_NEAR(row.value.time_s / exact.time_s, 1, 1e-6);
    EXPECT_NEAR(row.value.energy_j / exact.energy_j, 1, 0.005) << row.value.clock_mhz;
    EXPECT_FALSE(row.is_throttled);
  }
}

TEST(FitFewClocks, SeesThePlateauOfAPowerLimit) {
  const Truth truth(1275);
  const FewClockFit fit =
      fit_few_clocks(at_clocks(truth.profile, {1410, 1305, 1185, 1080, 960, 855}), every_15_mhz(1410, 855));
  EXPECT_NEAR(fit.models[0].throttle_mhz, 1275, 20);
  for (const FilledRow& row : fit.rows) {
    const Measurement& exact = truth.profile.at_clock(0, row.kind, row.value.clock_mhz);
    EXPECT_NEAR(row.value.time_s / exact.time_s, 1, 0.01) << row.value.clock_mhz;
    if (std::abs(row.value.clock_mhz - 1275) > 20) {
      EXPECT_EQ(row.is_throttled, row.value.clock_mhz > 1275) << row.value.clock_mhz;
    }
  }
}

TEST(FitFewClocks, KeepsMeasuredRowsAndSaysWhichArePredicted) {
  const Truth truth(1275, 0.02);
  const std::vector<int> measured = {1410, 1230, 1035, 855};
  const FewClockFit fit = fit_few_clocks(at_clocks(truth.profile, measured), std::vector<int>{1200, 1110, 1230});
  ASSERT_EQ(fit.rows.size(), 12);
  for (const FilledRow& row : fit.rows) {
    const bool is_measured = std::ranges::find(measured, row.value.clock_mhz) != measured.end();
    EXPECT_EQ(row.origin == RowOrigin::measured, is_measured);
    EXPECT_EQ(row.time_error_s > 0, !is_measured);
    EXPECT_EQ(row.energy_error_j > 0, !is_measured);
    if (!is_measured) continue;
    const Measurement& exact = truth.profile.at_clock(0, row.kind, row.value.clock_mhz);
    EXPECT_EQ(row.value.time_s, exact.time_s);
    EXPECT_EQ(row.value.energy_j, exact.energy_j);
  }
  EXPECT_EQ(fit.profile().measurements(0, OpKind::forward).size(), 6);
}

TEST(FitFewClocks, CurvesObeyTheirShapeWhateverTheNoise) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Truth truth(1320, 0.05, seed);
    const FewClockFit fit = fit_few_clocks(at_clocks(truth.profile, {1410, 1275, 1140, 990, 855}), {});
    for (const ClockModel& model : fit.models) {
      double slope_w = 0;
      for (double clock_mhz = 870; clock_mhz <= model.throttle_mhz; clock_mhz += 15) {
        EXPECT_GE(model.time_s(clock_mhz - 15), model.time_s(clock_mhz));
        const double next_slope_w = model.power_w(clock_mhz) - model.power_w(clock_mhz - 15);
        EXPECT_GE(next_slope_w, slope_w - 1e-9) << "power bends down at " << clock_mhz;
        slope_w = next_slope_w;
      }
    }
  }
}

TEST(FitFewClocks, ErrorsGrowWithTheNoise) {
  const auto mean_error = [](double noise) {
    double sum = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      const FewClockFit fit = fit_few_clocks(at_clocks(Truth(1410, noise, seed).profile, {1410, 1275, 1140, 990, 855}),
                                             std::vector<int>{1050, 1200});
      for (const FilledRow& row : fit.rows) sum += row.energy_error_j;
    }
    return sum;
  };
  EXPECT_GT(mean_error(0.02), 3 * mean_error(0.002));
}

TEST(FitFewClocks, RefusesTooFewClocksAndClocksOutside) {
  const Truth truth(1410);
  EXPECT_THAT(error_of([&] {
                (void)fit_few_clocks(at_clocks(truth.profile, {1410, 1200, 855}), {});
              }),
              AllOf(HasSubstr("stage 0 forward was measured at 3 clocks"), HasSubstr("at least 4")));
  const StageProfile part = at_clocks(truth.profile, {1410, 1200, 1050, 900});
  EXPECT_THAT(error_of([&] { (void)fit_few_clocks(part, std::vector<int>{885}); }),
              AllOf(HasSubstr("from 900 to 1410 MHz, and 885 MHz is outside"), HasSubstr("nothing is extrapolated")));
  EXPECT_THAT(error_of([&] { (void)fit_few_clocks(part, std::vector<int>{1425}); }), HasSubstr("1425 MHz is outside"));
  EXPECT_TRUE(fit_few_clocks(StageProfile(), {}).rows.empty());
}

TEST(FitFewClocks, TakesExtremeButAllowedValues) {
  StageProfile profile(1);
  for (const int clock_mhz : {1, 2, 50000, 100000}) {
    profile.add(0, OpKind::forward, {clock_mhz, clock_mhz % 2 == 0 ? 1e-12 : 1e6, clock_mhz == 2 ? 1e9 : 1e-300});
  }
  try {
    for (const FilledRow& row : fit_few_clocks(profile, std::vector<int>{3, 60000}).rows) {
      EXPECT_TRUE(std::isfinite(row.value.time_s));
    }
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("too far apart"));
  }
}

TEST(ChooseClocks, TakesTheEndsAndSpreadsTheRest) {
  const std::vector<int> a100 = every_15_mhz(1410, 210);
  EXPECT_THAT(choose_clocks(a100, 855, 1410, 6), ElementsAre(1410, 1305, 1185, 1080, 960, 855));
  EXPECT_THAT(choose_clocks(a100, 855, 1410, 4), ElementsAre(1410, 1230, 1035, 855));
}

TEST(ChooseClocks, NeverNamesAClockTwiceOrOneThatIsNotSupported) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int> supported;
    for (int i = 0; i < 2 + round % 30; ++i) supported.push_back(200 + static_cast<int>(random() % 2000));
    const int count = 4 + round % 5;
    std::vector<int> distinct = supported;
    std::ranges::sort(distinct);
    distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
    if (distinct.size() < 2) continue;
    const std::vector<int> chosen = choose_clocks(supported, 200, 2200, count);
    ASSERT_EQ(chosen.size(), std::min<std::size_t>(distinct.size(), count));
    ASSERT_EQ(chosen.front(), distinct.back());
    ASSERT_EQ(chosen.back(), distinct.front());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_TRUE(std::ranges::binary_search(distinct, chosen[i]));
      ASSERT_TRUE(i == 0 || chosen[i] < chosen[i - 1]);
    }
  }
}

TEST(ChooseClocks, RefusesTooFew) {
  const std::vector<int> supported = {1410, 1200};
  EXPECT_THAT(error_of([&] { (void)choose_clocks(supported, 800, 1410, 3); }), HasSubstr("at least 4"));
  EXPECT_THAT(error_of([&] { (void)choose_clocks(supported, 1300, 1410, 4); }), HasSubstr("widen the range"));
}

// ---- The profiles published with Perseus (SOSP'24), which are not part of this project ----

class PublishedFewClocks : public testing::TestWithParam<const char*> {};

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size()))];
}

TEST_P(PublishedFewClocks, SixClocksPredictTheOthers) {
  const auto path = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus/stage_profile" / GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "NOT CHECKED against the published profile, absent: " << path;
  const StageProfile profile = read_profile_file(read_file(path), GetParam()).profile;
  std::vector<int> supported;
  for (const Measurement& row : profile.measurements(0, OpKind::forward)) supported.push_back(row.clock_mhz);
  const std::vector<int> chosen = choose_clocks(supported, supported.back(), supported.front(), 6);
  std::vector<double> time_pct;
  std::vector<double> energy_pct;
  for (const FilledRow& row : fit_few_clocks(at_clocks(profile, chosen), supported).rows) {
    if (row.origin == RowOrigin::measured) continue;
    const Measurement& held_out = profile.at_clock(row.stage, row.kind, row.value.clock_mhz);
    time_pct.push_back(100 * std::abs(row.value.time_s / held_out.time_s - 1));
    energy_pct.push_back(100 * std::abs(row.value.energy_j / held_out.energy_j - 1));
  }
  EXPECT_LE(quantile(time_pct, 0.5), 2);
  EXPECT_LE(quantile(time_pct, 0.95), 5);
  EXPECT_LE(quantile(energy_pct, 0.5), 2);
  EXPECT_LE(quantile(energy_pct, 0.95), 5);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedFewClocks, testing::Values("gpt3-175b+a100_sxm_bf16.csv", "bloom+a40_bf16.csv"));

}  // namespace
}  // namespace lowgear::profile
