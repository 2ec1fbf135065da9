#include "planning/steps/next_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/core/error_of.h"
#include "planning/schedule/generators.h"
#include "planning/steps/sample_steps.h"
#include "planning/steps/step_input.h"

namespace lowgear::steps {
namespace {

using testing::HasSubstr;

constexpr int kReplicas = 3;
constexpr int kMicrobatches = 6;

WorkModel model_of(const std::vector<Amounts>& amounts, int stages, double noise) {
  std::vector<RecordedUnit> units;
  int place = 0;  // errors alternate by microbatch
  for (const Amounts& of_microbatch : amounts) {
    for (int stage = 0; stage < stages; ++stage) {
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        const double factor = (kind == OpKind::backward ? 2 : 1) * (1 + (place++ / 4 % 2 == 0 ? noise : -noise));
        units.push_back({0, stage, kind, of_microbatch,
                         factor * (kLinearS * of_microbatch.tokens + kAttentionS * of_microbatch.squared_tokens)});
      }
    }
  }
  return WorkModel::fit(units, WorkModel::Constant::zero);
}

std::vector<Amounts> amounts_of_a_step() {
  const SampleFiles files = sample_files(1, kReplicas, 2, kMicrobatches, 0);
  return read_lengths(files.lengths, "lengths.csv").steps.front().amounts;
}

StepPipeline pipeline_of(WorkModel work, ClocksPer clocks_per = ClocksPer::unit) {
  return {.schedule = schedule::one_f_one_b_schedule(2, kMicrobatches),
          .profile = sample_profile(2),
          .blocking_power_w = {kBlockingW, kBlockingW},
          .work = std::move(work),
          .clocks_per = clocks_per};
}

TEST(NextStep, EveryReplicaArrivesWithTheLongest) {
  const std::vector<Amounts> amounts = amounts_of_a_step();
  for (const ClocksPer clocks_per : {ClocksPer::unit, ClocksPer::replica}) {
    const NextStepPlanner planner(pipeline_of(model_of(amounts, 2, 0.01), clocks_per));
    double longest_s = 0;
    std::vector<NextStep> replicas;
    for (int replica = 0; replica < kReplicas; ++replica) {
      replicas.push_back(planner.plan(amounts, replica));
      longest_s = std::max(longest_s, replicas.back().replica_full_time_s);
    }
    for (const NextStep& step : replicas) {
      EXPECT_EQ(step.fault, "");
      EXPECT_EQ(step.time_s, longest_s) << "every rank has the same deadline";
      EXPECT_LE(step.replica_time_s, longest_s * (1 + 1e-9));
      const auto lowest = std::ranges::min_element(step.clocks_mhz);
      if (step.replica_full_time_s < 0.8 * longest_s) {
        EXPECT_LT(*lowest, planner.full_clock_mhz(0));
      }
      if (clocks_per == ClocksPer::replica) {
        EXPECT_EQ(*lowest, *std::ranges::max_element(step.clocks_mhz));
      }
    }
    EXPECT_LT(std::ranges::min(replicas, {}, &NextStep::replica_full_time_s).replica_full_time_s, 0.8 * longest_s);
  }
}

/// The error of the model is the margin: with it, clocks below the highest are left at least that much time.
TEST(NextStep, LeavesTimeForTheErrorOfTheModel) {
  const std::vector<Amounts> amounts = amounts_of_a_step();
  const auto latest_with = [&](double noise) {
    const WorkModel model = model_of(amounts, 2, noise);
    EXPECT_NEAR(model.error(), noise, 0.2 * noise);
    const NextStepPlanner planner(pipeline_of(model, ClocksPer::replica));
    double latest = 0;
    for (int replica = 0; replica < kReplicas; ++replica) {
      const NextStep step = planner.plan(amounts, replica);
      const bool is_slower = step.clocks_mhz.front() < planner.full_clock_mhz(0);
      if (is_slower) latest = std::max(latest, step.replica_time_s / step.time_s);
    }
    return latest;
  };
  EXPECT_GT(latest_with(1e-9), 0.9);
  EXPECT_LE(latest_with(0.05), 1 / 1.045);
}

TEST(NextStep, LengthsBeyondTheFitAreAFault) {
  std::vector<Amounts> amounts = amounts_of_a_step();
  const NextStepPlanner planner(pipeline_of(model_of(amounts, 2, 0)));
  amounts[kMicrobatches + 2].squared_tokens *= 100;
  for (int replica = 0; replica < kReplicas; ++replica) {
    const NextStep step = planner.plan(amounts, replica);
    EXPECT_THAT(step.fault, HasSubstr("microbatch 2 of replica 1 has"));
    EXPECT_TRUE(step.clocks_mhz.empty());
  }
}

TEST(NextStep, UnitsWithoutTimeAreAFault) {
  std::vector<Amounts> amounts = amounts_of_a_step();
  const NextStepPlanner planner(pipeline_of(model_of(amounts, 2, 0)));
  amounts[kMicrobatches + 2] = {0, 0};
  EXPECT_THAT(planner.plan(amounts, 0).fault, HasSubstr("replica 1 is predicted to take"));
}

TEST(NextStep, RefusesAModelThatLacksAStage) {
  EXPECT_THAT(error_of([] { const NextStepPlanner planner(pipeline_of(model_of(amounts_of_a_step(), 1, 0))); }),
              HasSubstr("no recorded unit is a forward of stage 1"));
}

}  // namespace
}  // namespace lowgear::steps
