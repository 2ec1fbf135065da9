#include "planning/steps/step_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "planning/steps/sample_steps.h"

namespace lowgear::steps {
namespace {

TEST(BalancedDeal, KeepsCountsAndIsNearTheMean) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> time(0, 0.5);
  std::vector<std::vector<double>> load(16, std::vector<double>(8));
  double sum_s = 0;
  double longest_s = 0;
  double before_s = 0;
  for (std::vector<double>& of_replica : load) {
    double own_s = 0;
    for (double& of_microbatch : of_replica) {
      of_microbatch = time(random);
      own_s += of_microbatch;
    }
    sum_s += own_s;
    before_s = std::max(before_s, own_s);
  }
  const auto deal = balanced_deal(load, std::vector<double>(16, 1.0));
  std::set<Origin> met;
  for (const std::vector<Origin>& of_replica : deal) {
    EXPECT_EQ(of_replica.size(), 8U);
    double own_s = 0;
    for (const Origin& origin : of_replica) {
      EXPECT_TRUE(met.insert(origin).second);
      own_s += load[static_cast<std::size_t>(origin.replica)][static_cast<std::size_t>(origin.microbatch)];
    }
    longest_s = std::max(longest_s, own_s);
  }
  EXPECT_LT(longest_s, 1.08 * sum_s / 16);
  EXPECT_LT(longest_s, before_s);
}

TEST(BalancedDeal, GivesASlowReplicaTheShortMicrobatches) {
  const std::vector<double> slowness{1, 2};
  const auto deal = balanced_deal({{5, 1}, {5, 1}}, slowness);
  EXPECT_EQ(deal[0], (std::vector<Origin>{{0, 0}, {1, 0}}));
  EXPECT_EQ(deal[1], (std::vector<Origin>{{0, 1}, {1, 1}}));
}

struct Sample {
  schedule::PipelineDag dag = sample_dag(2, 4);
  profile::StageProfile profile = sample_profile(2);
  std::vector<double> power_w{kBlockingW, kBlockingW};
  SampleFiles files;
  PredictedSteps predicted;
  Quiet progress;

  explicit Sample(double noise, int replicas = 4) : files(sample_files(40, replicas, 2, 4, noise)) {
    predicted = predict_steps(dag, read_lengths(files.lengths, "l.csv"), read_trace(files.trace, "t.csv"), 0);
  }
  StepRun run(const StepRunOptions& options) { return plan_steps(predicted, dag, profile, power_w, options, progress); }
};

TEST(StepRun, ExactTimesNeedNoMarginAndAreNeverLate) {
  Sample sample(0);
  const StepRun run = sample.run({});
  EXPECT_EQ(run.margins[0], 0);
  const StepTotals given = totals(run, Deal::given, Times::recorded);
  EXPECT_EQ(given.steps, 40);
  EXPECT_LT(given.mean_lateness, 1e-6);
  EXPECT_LT(given.sums.plan.energy_j, 0.9 * given.sums.full_clocks.energy_j);
  EXPECT_GE(given.sums.plan.energy_j, given.bound_j * (1 - 1e-6));
}

TEST(StepRun, AMarginKeepsLateStepsFew) {
  Sample sample(0.03);
  const StepRun strict = sample.run({.late_share = 0.05});
  const StepRun loose = sample.run({.late_share = 1});
  EXPECT_GT(strict.margins[0], 0);
  EXPECT_EQ(loose.margins[0], 0);
  const StepTotals fitted = totals(strict, Deal::given, Times::recorded, Which::fitted);
  const StepTotals held_out = totals(strict, Deal::given, Times::recorded, Which::held_out);
  EXPECT_LE(fitted.late_share, 0.05);
  EXPECT_LE(held_out.late_share, 0.25);
  EXPECT_LT(held_out.mean_lateness, totals(loose, Deal::given, Times::recorded, Which::held_out).mean_lateness);
}

TEST(StepRun, ASavingOfBalancingIsNotOneOfClocks) {
  Sample sample(0);
  const StepRun run = sample.run({});
  const StepTotals given = totals(run, Deal::given, Times::predicted);
  const StepTotals balanced = totals(run, Deal::balanced, Times::predicted);
  EXPECT_LT(balanced.sums.full_clocks.time_s, given.sums.full_clocks.time_s);
  // Clocks after balancing are compared with balanced full clocks, not with those as dealt.
  for (const PlannedStep& step : run.steps) {
    const PlannedDeal& deal = step.deals[place(Deal::balanced)];
    EXPECT_LE(deal.predicted.plan.time_s, deal.predicted.full_clocks.time_s * (1 + 1e-10));
    EXPECT_LE(deal.predicted.full_clocks.time_s, step.deals[0].predicted.full_clocks.time_s * (1 + 1e-12));
  }
}

TEST(StepRun, BalancedRanksHoldNoMoreTokensThanAsDealt) {
  Sample sample(0);
  // 1F1B: the first of two ranks holds two microbatches in succession, the last holds one.
  const auto most = [&](const StepUnits& units, const PlannedDeal& deal) {
    double most_tokens = 0;
    for (const std::vector<Origin>& of_replica : deal.origins) {
      for (std::size_t m = 1; m < of_replica.size(); ++m) {
        double tokens = 0;
        for (const Origin& origin : {of_replica[m - 1], of_replica[m]}) {
          tokens += units.tokens[static_cast<std::size_t>(origin.replica)][static_cast<std::size_t>(origin.microbatch)];
        }
        most_tokens = std::max(most_tokens, tokens);
      }
    }
    return most_tokens;
  };
  const StepRun run = sample.run({});
  int dealt_anew = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const auto& [given, balanced] = std::tie(run.steps[i].deals[0], run.steps[i].deals[1]);
    EXPECT_LE(most(sample.predicted.steps[i], balanced), most(sample.predicted.steps[i], given)) << "step " << i;
    if (balanced.origins != given.origins) ++dealt_anew;
  }
  EXPECT_GT(dealt_anew, 30);
}

TEST(StepRun, AStepWithAFaultCountsAtFullClocksWhereItIsRecorded) {
  Sample sample(0);
  sample.predicted.steps[30].fault = "no lengths";
  const StepRun run = sample.run({});
  const StepTotals sums = totals(run, Deal::given, Times::recorded);
  EXPECT_EQ(sums.steps, 40);
  EXPECT_EQ(sums.safe_steps, 1);
  EXPECT_EQ(totals(run, Deal::given, Times::predicted).steps, 39);
  const StepPair* const safe = figures(run.steps[30], Deal::balanced, Times::recorded);
  ASSERT_NE(safe, nullptr);
  EXPECT_EQ(safe->plan.energy_j, safe->full_clocks.energy_j);
  EXPECT_EQ(safe->plan.time_s, safe->full_clocks.time_s);
}

TEST(StepRun, AMarginThatIsNotEnoughIsSaid) {
  Sample sample(0.03);
  const StepRun run = sample.run({.late_by_s = 0.4, .late_share = 0});
  EXPECT_FALSE(run.keeps_lateness[0]);
  EXPECT_GT(totals(run, Deal::given, Times::recorded, Which::fitted).late_steps, 0);
  EXPECT_TRUE(sample.run({.late_share = 1}).keeps_lateness[0]);
}

TEST(StepRun, OneReplicaHasNothingToBalance) {
  Sample sample(0, 1);
  const StepRun run = sample.run({});
  EXPECT_EQ(run.deals.size(), 1U);
  EXPECT_EQ(run.steps[0].deals.size(), 1U);
  EXPECT_EQ(totals(run, Deal::balanced, Times::predicted).steps, 0);
}

TEST(StepRun, ThreadsChangeNothing) {
  Sample sample(0.02);
  const StepRun one = sample.run({});
  std::size_t calls = 0;
  const StepRun two = sample.run({.runner =
                                      [&](std::size_t count, std::size_t, std::string_view, Progress& progress,
                                          const std::function<void(const ParallelTask&)>& work) {
                                        ++calls;
                                        for (std::size_t i = count; i-- > 0;) work({i, 0, progress});
                                      },
                                  .threads = 3});
  EXPECT_GT(calls, 0U);
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(one.steps[i].deals[0].clocks_mhz, two.steps[i].deals[0].clocks_mhz);
  }
}

}  // namespace
}  // namespace lowgear::steps
