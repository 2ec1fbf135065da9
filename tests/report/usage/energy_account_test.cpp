#include "report/usage/energy_account.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace lowgear::usage {
namespace {

constexpr std::int64_t kNovemberS = 1'793'491'200;  // 2026-11-01

UsageRow row(const char* job, const char* user, double energy_j) {
  UsageRow one;
  one.hour_s = kNovemberS;
  one.job = job;
  one.name = std::string("name of ") + job;
  one.user = user;
  one.iterations = one.measured_iterations = 10;
  one.time_s = 22;
  one.energy_j = energy_j;
  one.energy_error_j = 3;
  return one;
}

UsageRow with_baseline(UsageRow one, double energy_j, double error_j) {
  one.baseline_time_s = 2;
  one.baseline_energy_j = energy_j;
  one.baseline_error_j = error_j;
  return one;
}

MonthAccount november(const std::vector<UsageRow>& rows) { return account_of(rows, parse_month("2026-11")); }

TEST(EnergyAccount, ClaimsNothingWithoutABaseline) {
  const MonthAccount account = november({row("j-1", "ada", 900)});
  ASSERT_TRUE(account.measured);
  EXPECT_FALSE(account.simulated);
  EXPECT_EQ(account.measured->total.energy_j.value, 900);
  EXPECT_EQ(account.measured->total.energy_j.error, 3);
  EXPECT_FALSE(account.measured->total.saving);
}

TEST(EnergyAccount, ComparesOnlyIterationsThatHaveABaseline) {
  UsageRow doubtful = row("j-1", "ada", 1'000);
  doubtful.doubtful_energy_j = 600;
  const MonthAccount account = november({doubtful, with_baseline(row("j-1", "ada", 900), 100, 1)});
  const Balance& total = account.measured->total;
  EXPECT_EQ(total.energy_j.value, 1'900);
  EXPECT_EQ(total.doubtful_energy_j, 600);
  EXPECT_EQ(total.iterations, 20);
  ASSERT_TRUE(total.saving);
  EXPECT_EQ(total.saving->energy_j, 900);
  EXPECT_EQ(total.saving->baseline_energy_j, 1'000);
  EXPECT_EQ(total.saving->saved_j.value, 100);
  EXPECT_DOUBLE_EQ(total.saving->saved_ratio.value, 0.1);
  EXPECT_NEAR(total.saving->slowdown_ratio, 0.1, 1e-12);
  // Ten iterations against a mean that is 1 J wrong are 10 J wrong.
  EXPECT_DOUBLE_EQ(total.saving->saved_j.error, std::hypot(10, 3));
}

TEST(EnergyAccount, AddsErrorsOfOneBaselineLinearlyAndOfSeveralInSquares) {
  UsageRow later = with_baseline(row("j-1", "ada", 900), 100, 1);
  later.hour_s += kHourS;
  const MonthAccount same = november({with_baseline(row("j-1", "ada", 900), 100, 1), later});
  EXPECT_DOUBLE_EQ(same.measured->total.saving->saved_j.error, std::sqrt(20.0 * 20 + 2 * 3 * 3));
  const MonthAccount renewed =
      november({with_baseline(row("j-1", "ada", 900), 100, 1), with_baseline(row("j-1", "ada", 900), 101, 1)});
  EXPECT_DOUBLE_EQ(renewed.measured->total.saving->saved_j.error, std::sqrt(2 * (10.0 * 10 + 3 * 3)));
  const MonthAccount others =
      november({with_baseline(row("j-1", "ada", 900), 100, 1), with_baseline(row("j-2", "ada", 900), 100, 1)});
  EXPECT_DOUBLE_EQ(others.measured->total.saving->saved_j.error, std::sqrt(2 * (10.0 * 10 + 3 * 3)));
}

/// Against drawing every meter and every baseline anew.
TEST(EnergyAccount, StatesTheErrorThatRepetitionsShow) {
  std::mt19937 random(17);
  std::normal_distribution<double> normal;
  constexpr int kDraws = 20'000;
  double sum = 0;
  double squares = 0;
  double ratio_sum = 0;
  double ratio_squares = 0;
  Saving stated;
  for (int draw = 0; draw < kDraws; ++draw) {
    const double baseline_j = 100 + normal(random);
    BalanceSum balance;
    for (int hour = 0; hour < 4; ++hour) {
      UsageRow one = with_baseline(row("j-1", "ada", 900 + 3 * normal(random)), baseline_j, 1);
      one.hour_s += hour * kHourS;
      balance.add(one);
    }
    stated = balance.balance().saving.value();
    sum += stated.saved_j.value;
    squares += stated.saved_j.value * stated.saved_j.value;
    ratio_sum += stated.saved_ratio.value;
    ratio_squares += stated.saved_ratio.value * stated.saved_ratio.value;
  }
  const auto spread = [](double total, double total_squares) {
    return std::sqrt(total_squares / kDraws - (total / kDraws) * (total / kDraws));
  };
  EXPECT_NEAR(stated.saved_j.error / spread(sum, squares), 1, 0.03);
  EXPECT_NEAR(stated.saved_ratio.error / spread(ratio_sum, ratio_squares), 1, 0.05);
}

TEST(EnergyAccount, KeepsUsersJobsMonthsAndSimulatedGpusApart) {
  UsageRow simulated = row("j-3", "ada", 5'000);
  simulated.simulated = true;
  UsageRow december = row("j-1", "ada", 7'000);
  december.hour_s = parse_month("2026-12").from_s;
  const MonthAccount account = november({row("j-1", "ada", 100), row("j-2", "grace", 300), row("j-4", "", 50),
                                         row("j-5", "ada", 20), simulated, december});
  const EnergyAccount& measured = account.measured.value();
  ASSERT_EQ(measured.users.size(), 3U);
  EXPECT_EQ(measured.users[0].name, "grace");
  EXPECT_EQ(measured.users[1].name, "ada");
  EXPECT_EQ(measured.users[1].balance.energy_j.value, 120);
  EXPECT_EQ(measured.users[2].name, "");
  ASSERT_EQ(measured.jobs.size(), 4U);
  EXPECT_EQ(measured.jobs[0].name, "j-2");
  EXPECT_EQ(measured.jobs[0].label, "name of j-2");
  EXPECT_EQ(measured.jobs[0].user, "grace");
  EXPECT_EQ(measured.total.energy_j.value, 470);
  EXPECT_EQ(account.simulated->total.energy_j.value, 5'000);
}

TEST(EnergyAccount, CountsIterationsWhoseEnergyIsNotKnown) {
  UsageRow one = with_baseline(row("j-1", "ada", 450), 100, 1);
  one.measured_iterations = 5;
  const Balance total = november({one}).measured->total;
  EXPECT_EQ(total.unmeasured_iterations, 5);
  EXPECT_EQ(total.saving->baseline_energy_j, 500);
  EXPECT_NEAR(total.saving->slowdown_ratio, 0.1, 1e-12);
}

TEST(EnergyAccount, ConvertsByFactors) {
  EXPECT_DOUBLE_EQ(at_factor({7.2e6, 3.6e6}, 0.25).value, 0.5);
  EXPECT_DOUBLE_EQ(at_factor({7.2e6, 3.6e6}, 0.25).error, 0.25);
}

}  // namespace
}  // namespace lowgear::usage
