#include "report/experiment/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace lowgear::experiment {
namespace {

// Student's own data (1908): hours of sleep gained by ten patients with two drugs. R's manual compares them, and
// t.test(extra ~ group, paired = TRUE) and t.test(extra ~ group) print the intervals below.
const std::vector<double> kFirst{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
const std::vector<double> kSecond{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};

/// Values whose logarithms these are.
std::vector<double> exponentials(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double value : values) result.push_back(std::exp(value));
  return result;
}

double log_of_pct(double pct) { return std::log1p(pct / 100); }

TEST(Interval, AgreesWithRsOneSampleTest) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < kFirst.size(); ++i) differences.push_back(kFirst[i] - kSecond[i]);
  const auto interval = mean_interval(differences);
  ASSERT_TRUE(interval && interval->range);
  EXPECT_NEAR(interval->mean, -1.58, 1e-12);
  EXPECT_NEAR(interval->range->low, -2.4598858, 5e-8);
  EXPECT_NEAR(interval->range->high, -0.7001142, 5e-8);
  EXPECT_EQ(interval->count, 10);
}

TEST(Interval, PairsAsRDoes) {
  const auto interval = paired_difference_pct(exponentials(kFirst), exponentials(kSecond));
  ASSERT_TRUE(interval && interval->range);
  EXPECT_NEAR(log_of_pct(interval->mean), -1.58, 1e-12);
  EXPECT_NEAR(log_of_pct(interval->range->low), -2.4598858, 5e-8);
  EXPECT_NEAR(log_of_pct(interval->range->high), -0.7001142, 5e-8);
}

TEST(Interval, ComparesUnpairedGroupsAsWelchsTestOfR) {
  const auto interval = difference_pct(exponentials(kFirst), exponentials(kSecond));
  ASSERT_TRUE(interval && interval->range);
  EXPECT_NEAR(log_of_pct(interval->mean), -1.58, 1e-12);
  EXPECT_NEAR(log_of_pct(interval->range->low), -3.3654832, 5e-8);
  EXPECT_NEAR(log_of_pct(interval->range->high), 0.2054832, 5e-8);
}

TEST(Interval, OneValueHasNoRange) {
  EXPECT_FALSE(mean_interval({}));
  EXPECT_FALSE(mean_interval(std::vector{3.0})->range);
  EXPECT_EQ(mean_interval(std::vector{3.0})->mean, 3);
  EXPECT_FALSE(difference_pct(std::vector{3.0}, std::vector{2.0, 2.1})->range);
  EXPECT_NEAR(difference_pct(std::vector{3.0}, std::vector{2.0})->mean, 50, 1e-12);
  EXPECT_FALSE(paired_difference_pct({}, {}));
}

TEST(Interval, EqualValuesHaveNoSpread) {
  const auto same = difference_pct(std::vector{2.0, 2.0}, std::vector{2.0, 2.0, 2.0});
  ASSERT_TRUE(same && same->range);
  EXPECT_EQ(same->range->low, 0);
  EXPECT_EQ(same->range->high, 0);
}

TEST(Interval, AHalfAndTheDoubleAreTheSameDifference) {
  const std::vector<double> low{1.0, 1.1, 0.9};
  const std::vector<double> high{2.0, 2.3, 1.9};
  const auto up = difference_pct(high, low);
  const auto down = difference_pct(low, high);
  EXPECT_NEAR((1 + up->mean / 100) * (1 + down->mean / 100), 1, 1e-12);
  EXPECT_NEAR((1 + up->range->low / 100) * (1 + down->range->high / 100), 1, 1e-12);
}

TEST(Interval, HasNoRatioOfWhatIsNotPositive) {
  EXPECT_FALSE(difference_pct(std::vector{0.0, 1.0}, std::vector{1.0, 1.0}));
  EXPECT_FALSE(paired_difference_pct(std::vector{1.0, 1.0}, std::vector{-1.0, 1.0}));
}

/// Intervals of 95 % contain the truth in 95 of 100 draws.
TEST(Interval, ContainsTheTruthAsOftenAsItClaims) {
  constexpr int kDraws = 4000;
  std::uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (static_cast<double>(state >> 11U) + 0.5) / 9007199254740992.0;
  };
  const auto normal = [&uniform] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  };
  int paired = 0;
  int unpaired = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> base;
    std::vector<double> same;
    std::vector<double> other;
    for (int i = 0; i < 5; ++i) {
      const double drift = 0.2 * normal();
      base.push_back(std::exp(drift + 0.01 * normal()));
      same.push_back(0.9 * std::exp(drift + 0.01 * normal()));
      other.push_back(0.9 * std::exp(0.05 * normal()));
    }
    const auto contains = [](const Interval& interval) {
      return interval.range->low <= -10 && -10 <= interval.range->high;
    };
    paired += contains(*paired_difference_pct(same, base)) ? 1 : 0;
    unpaired += contains(*difference_pct(other, base)) ? 1 : 0;
  }
  EXPECT_NEAR(paired, 0.95 * kDraws, 0.015 * kDraws);
  EXPECT_NEAR(unpaired, 0.95 * kDraws, 0.02 * kDraws);
}

}  // namespace
}  // namespace lowgear::experiment
