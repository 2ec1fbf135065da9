#include "training/trainer/run/run_totals.h"

#include <gtest/gtest.h>

#include <string>

namespace lowgear::trainer {
namespace {

StepResult step(double time_s, std::optional<double> energy_j) {
  StepResult result;
  result.time_s = time_s;
  result.energy_j = energy_j;
  result.mfu = 0.5;
  result.loss = time_s;
  return result;
}

TEST(RunTotals, LeaveTheFirstStepsOutOfTheMeans) {
  RunTotals totals(0, 4, 100);
  for (const double time_s : {90.0, 80.0, 1.0, 3.0}) totals.add(step(time_s, 10 * time_s));
  const RunSummary& summary = totals.summary();
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.counted_steps, 2);
  EXPECT_EQ(summary.first_loss, 90);
  EXPECT_EQ(summary.last_loss, 3);
  EXPECT_DOUBLE_EQ(summary.step_time_s, 2);
  EXPECT_DOUBLE_EQ(*summary.step_energy_j, 20);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 50);
  EXPECT_DOUBLE_EQ(*summary.mfu, 0.5);
}

TEST(RunTotals, CountTheLastStepWhereThereAreNoOthers) {
  RunTotals totals(6, 7, 100);
  totals.add(step(2, 30));
  EXPECT_EQ(totals.summary().first_step, 6);
  EXPECT_EQ(totals.summary().counted_steps, 1);
  EXPECT_DOUBLE_EQ(totals.summary().step_time_s, 2);
}

TEST(RunTotals, HaveNoEnergyUnlessEveryStepHasOne) {
  RunTotals totals(0, 4, 100);
  for (int i = 0; i < 3; ++i) totals.add(step(1, 10));
  EXPECT_TRUE(totals.summary().step_energy_j);
  totals.add(step(1, std::nullopt));
  EXPECT_FALSE(totals.summary().step_energy_j);
}

/// The rule is that of `lowgear report` (run_validity.h).
TEST(RunTotals, AreInvalidAsTheReportOfTheirMetricsIs) {
  RunTotals totals(0, 4, 100);
  StepResult marked = step(1, 10);
  marked.simulated = true;
  marked.invalid = true;
  totals.add(marked);
  totals.add(marked);
  EXPECT_NE(totals.summary().text().find("\ninvalid: the real computation took longer"), std::string::npos);
  EXPECT_NE(totals.summary().json().find("\"invalid\":true"), std::string::npos);
  StepResult valid = marked;
  valid.invalid = false;
  totals.add(valid);
  EXPECT_EQ(totals.summary().invalid, "");
  EXPECT_NE(totals.summary().text().find("\nnote: 2 of 3 steps are marked invalid"), std::string::npos);
}

}  // namespace
}  // namespace lowgear::trainer
