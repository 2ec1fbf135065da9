#include "planning/steps/foresight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planning/steps/sample_steps.h"
#include "planning/steps/step_run.h"

namespace lowgear::steps {
namespace {

/// Mean over a replica's microbatches on a stage.
double mean_tokens(const Lengths& lengths, std::size_t step, int replica, int stage) {
  double sum = 0;
  for (int m = 0; m < LoadedSteps::kMicrobatches; ++m)
    sum += lengths.steps[step].amounts[lengths.place(replica, m, stage)].tokens;
  return sum / LoadedSteps::kMicrobatches;
}

TEST(Foresight, IsTheMeanOfTheStepsBefore) {
  const Lengths lengths = LoadedSteps().lengths;
  for (const Foresight foresight : {Foresight::last, Foresight::mean}) {
    const Lengths planned = foreseen(lengths, foresight);
    EXPECT_EQ(planned.steps[0].fault, "no step before it states its amounts");
    for (std::size_t step = 1; step < lengths.steps.size(); ++step) {
      // In closed form: the first four steps weigh the same, then each new one a quarter.
      std::vector<double> weights(step, 1.0 / static_cast<double>(step));
      if (foresight == Foresight::last && step > 4) {
        for (std::size_t i = 0; i < step; ++i) {
          const auto later = static_cast<double>(step - std::max<std::size_t>(i + 1, 4));
          weights[i] = 0.25 * std::pow(0.75, later);
        }
      }
      for (int replica = 0; replica < LoadedSteps::kReplicas; ++replica) {
        for (int stage = 0; stage < LoadedSteps::kStages; ++stage) {
          double expected = 0;
          for (std::size_t i = 0; i < step; ++i) expected += weights[i] * mean_tokens(lengths, i, replica, stage);
          for (int m = 0; m < LoadedSteps::kMicrobatches; ++m) {
            EXPECT_NEAR(planned.steps[step].amounts[lengths.place(replica, m, stage)].tokens, expected,
                        1e-9 * expected);
          }
        }
      }
    }
  }
}

StepRun run_of(const LoadedSteps& steps, Foresight foresight, int fit_steps = 6) {
  const schedule::PipelineDag dag = sample_dag(LoadedSteps::kStages, LoadedSteps::kMicrobatches);
  const profile::StageProfile profile = sample_profile(LoadedSteps::kStages);
  const std::vector<double> power_w(LoadedSteps::kStages, kBlockingW);
  Quiet progress;
  return plan_steps(predict_steps(dag, steps.lengths, steps.trace, fit_steps, foresight), dag, profile, power_w, {},
                    progress);
}

TEST(Foresight, APlanNeverReadsItsOwnStep) {
  constexpr int kChanged = 8;  // not fitted
  for (const Foresight foresight : {Foresight::last, Foresight::mean}) {
    const StepRun run = run_of(LoadedSteps(), foresight);
    const StepRun changed = run_of(LoadedSteps(kChanged), foresight);
    ASSERT_EQ(run.steps.size(), changed.steps.size());
    for (std::size_t i = 1; i < run.steps.size(); ++i) {
      const PlannedDeal& one = run.steps[i].deals.at(0);
      const PlannedDeal& other = changed.steps[i].deals.at(0);
      if (i <= kChanged) {
        EXPECT_EQ(one.clocks_mhz, other.clocks_mhz) << i;
        EXPECT_EQ(one.predicted_s, other.predicted_s) << i;
      } else {
        EXPECT_NE(one.predicted_s, other.predicted_s) << i;
      }
      EXPECT_EQ(one.recorded->full_clocks.time_s == other.recorded->full_clocks.time_s, i != kChanged) << i;
    }
  }
  // Where amounts are known, the plan of the step follows them.
  EXPECT_NE(run_of(LoadedSteps(), Foresight::own).steps[4].deals.at(0).predicted_s,
            run_of(LoadedSteps(4), Foresight::own).steps[4].deals.at(0).predicted_s);
}

TEST(Foresight, StepsWithoutTimesAreReplayedWithThoseOfTheirOwnLoads) {
  LoadedSteps steps;
  const StepRun recorded = run_of(steps, Foresight::last);
  steps.trace.steps.resize(6);
  const StepRun run = run_of(steps, Foresight::last);
  for (std::size_t i = 6; i < run.steps.size(); ++i) {
    ASSERT_TRUE(run.steps[i].deals.at(0).recorded);
    // The sample's times are exactly a + b x tokens.
    EXPECT_NEAR(run.steps[i].deals[0].recorded->plan.energy_j, recorded.steps[i].deals[0].recorded->plan.energy_j,
                1e-6 * recorded.steps[i].deals[0].recorded->plan.energy_j);
  }
}

TEST(Foresight, ModelledTimesAreNotCountedAsRecorded) {
  LoadedSteps steps;
  steps.trace.steps.resize(6);
  const StepRun run = run_of(steps, Foresight::last, 3);
  for (std::size_t i = 0; i < run.steps.size(); ++i) EXPECT_EQ(run.steps[i].replayed_by_fit, i >= 6) << i;
  EXPECT_EQ(totals(run, Deal::given, Times::recorded).steps, 6);
  EXPECT_EQ(totals(run, Deal::given, Times::recorded, Which::held_out).steps, 3);
  EXPECT_EQ(totals(run, Deal::given, Times::by_fit).steps, LoadedSteps::kSteps - 6);
  EXPECT_EQ(totals(run, Deal::given, Times::replayed).steps, LoadedSteps::kSteps);

  // Units that were recorded slower than the model says: their error is that of the recorded steps alone.
  const schedule::PipelineDag dag = sample_dag(LoadedSteps::kStages, LoadedSteps::kMicrobatches);
  for (std::size_t i = 3; i < 6; ++i) {
    for (double& time_s : steps.trace.steps[i].time_s) time_s *= 2;
  }
  const PredictedSteps predicted = predict_steps(dag, steps.lengths, steps.trace, 3, Foresight::last);
  double squares = 0, count = 0;
  for (std::size_t i = 3; i < 6; ++i) {
    for (int r = 0; r < LoadedSteps::kReplicas; ++r) {
      for (std::size_t op = 0; op < dag.ops.size(); ++op, ++count) {
        const StepUnits& step = predicted.steps[i];
        const double error =
            step.predicted_s[static_cast<std::size_t>(r)][op] / step.recorded_s[static_cast<std::size_t>(r)][op] - 1;
        squares += error * error;
      }
    }
  }
  EXPECT_NEAR(predicted.error, std::sqrt(squares / count), 1e-9);
}

TEST(Foresight, AStepWithoutItsOwnAmountsIsPlannedAndNotReplayed) {
  LoadedSteps steps;
  steps.lengths.steps[7].fault = "a layer is missing";
  const StepRun run = run_of(steps, Foresight::last);
  EXPECT_EQ(run.steps[7].not_replayed, "a layer is missing");
  ASSERT_EQ(run.steps[7].deals.size(), 1U);
  EXPECT_FALSE(run.steps[7].deals[0].recorded);
  EXPECT_EQ(run.steps[8].not_replayed, "");
  EXPECT_EQ(totals(run, Deal::given, Times::replayed).steps, LoadedSteps::kSteps - 1);
}

TEST(Foresight, EnergyIsThatOfAMeanRank) {
  const LoadedSteps steps;
  const StepRun run = run_of(steps, Foresight::own, LoadedSteps::kSteps);
  const Lengths lengths = steps.lengths;
  const schedule::PipelineDag dag = sample_dag(LoadedSteps::kStages, LoadedSteps::kMicrobatches);
  const profile::StageProfile profile = sample_profile(LoadedSteps::kStages);
  EXPECT_EQ(run.deals.size(), 1U);
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepFigures& full = run.steps[i].deals.at(0).recorded->full_clocks;
    double energy_j = LoadedSteps::kReplicas * LoadedSteps::kStages * kBlockingW * full.time_s;
    for (int replica = 0; replica < LoadedSteps::kReplicas; ++replica) {
      for (const schedule::ComputeOp& op : dag.ops) {
        const double mean = lengths.steps[i].mean_tokens[lengths.place(replica, op.microbatch, op.stage)];
        const double busy_s = (op.kind == OpKind::forward ? 1 : 2) * (kConstantS + LoadedSteps::kLoadS * mean);
        const profile::Measurement& row = profile.at_max_clock(op.stage, op.kind);
        energy_j += busy_s * (row.energy_j / row.time_s - kBlockingW);
      }
    }
    EXPECT_NEAR(full.energy_j, energy_j, 1e-6 * energy_j);
  }
}

}  // namespace
}  // namespace lowgear::steps
