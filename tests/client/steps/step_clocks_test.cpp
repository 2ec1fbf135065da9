#include "client/steps/step_clocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/core/eventually.h"
#include "client/steps/told_lengths.h"
#include "planning/plan/plan_json.h"
#include "planning/schedule/generators.h"
#include "planning/steps/sample_steps.h"

namespace lowgear::client {
namespace {

using steps::Amounts;
using testing::HasSubstr;

constexpr int kMicrobatches = 2;
constexpr int kProfiledMhz = 1410;
const std::vector<Amounts> kShort(kMicrobatches, {2'000, 2e6});
const std::vector<Amounts> kLong(kMicrobatches, {4'000, 8e6});

StepPlanning planning() {
  std::vector<steps::RecordedUnit> units;
  for (const std::vector<Amounts>& microbatches : {kShort, kLong}) {
    for (const int stage : {0, 1}) {
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        const Amounts& amounts = microbatches.front();
        units.push_back(
            {0, stage, kind, amounts, steps::kLinearS * amounts.tokens * (kind == OpKind::forward ? 1 : 2)});
      }
    }
  }
  StepPlanning planning;
  planning.planner = std::make_unique<steps::NextStepPlanner>(
      steps::StepPipeline{.schedule = schedule::one_f_one_b_schedule(2, kMicrobatches),
                          .profile = steps::sample_profile(2),
                          .blocking_power_w = {steps::kBlockingW, steps::kBlockingW},
                          .work = steps::WorkModel::fit(units, steps::WorkModel::Constant::zero),
                          .clocks_per = steps::ClocksPer::replica});
  planning.schedule = "1f1b";
  return planning;
}

/// Of two replicas, of which this rank is in the one with the short documents.
class StepClocksTest : public testing::Test {
 protected:
  StepClocksTest() {
    StepClocksOptions options;
    options.planning = planning();
    options.lengths = [this](std::int64_t step) { return told_.of(step); };
    options.offer = [this](Client::IterationPlan plan) {
      const std::lock_guard lock(mutex_);
      offered_.push_back(std::move(plan));
      return answer_;
    };
    options.name = [](std::int64_t step) { return "iteration " + std::to_string(step); };
    clocks_ = std::make_unique<StepClocks>(begun_, std::move(options));
    testing::internal::CaptureStderr();
    clocks_->begin();
  }

  void tell(std::int64_t step, const std::vector<Amounts>& own = kShort) {
    told_.tell(step, 0, own);
    told_.tell(step, 1, kLong);
    clocks_->lengths_change(step);
  }
  void begin(std::int64_t step) { begun_.begins(step); }
  std::vector<Client::IterationPlan> offered() {
    const std::lock_guard lock(mutex_);
    return offered_;
  }
  /// The plan of this number that was offered, once it was.
  Client::IterationPlan offer(std::size_t number) {
    EXPECT_TRUE(eventually([&] { return offered().size() > number; }));
    return offered().at(number);
  }
  static std::set<int> clocks_of(const Client::IterationPlan& plan) {
    std::set<int> clocks_mhz;
    const plan::Plan read = plan::read_plan(plan.plan_json, "plan");
    EXPECT_EQ(read.ranks.size(), 1U) << "of this rank alone";
    for (const plan::PlannedOp& op : read.ranks.front()) clocks_mhz.insert(op.clock_mhz);
    return clocks_mhz;
  }
  void await_reason(std::int64_t step, const std::string& reason) {
    EXPECT_TRUE(eventually([&] { return clocks_->prediction(step).reason.starts_with(reason); }));
  }
  std::string end() {
    others_ = clocks_->finish();
    return testing::internal::GetCapturedStderr();
  }

  BegunSteps begun_;
  ToldLengths told_{begun_, 2, kMicrobatches};
  std::mutex mutex_;
  std::vector<Client::IterationPlan> offered_;
  Client::IterationAnswer answer_;
  std::unique_ptr<StepClocks> clocks_;
  std::string others_;
};

TEST_F(StepClocksTest, PlansAStepWhileTheOneBeforeRuns) {
  tell(0);
  tell(2);
  tell(1);
  for (const std::uint64_t step : {0, 1, 2}) {
    const Client::IterationPlan plan = offer(step);
    EXPECT_EQ(plan.iteration, step) << "in order, each before its step begins";
    EXPECT_EQ(plan.full_from, step + 1);
    EXPECT_EQ(plan.full_clock_mhz, kProfiledMhz);
    EXPECT_LT(*clocks_of(plan).rbegin(), kProfiledMhz) << "the other replica takes longer";
    EXPECT_TRUE(eventually([&] { return clocks_->prediction(static_cast<std::int64_t>(step)).time_s > 0; }));
    EXPECT_EQ(offered().size(), step + 1) << "the next one has not begun";
    begin(static_cast<std::int64_t>(step));
  }
  EXPECT_EQ(end(), "");
  EXPECT_EQ(others_, "");
}

TEST_F(StepClocksTest, AStepWhoseLengthsAreNotToldHasNoClocks) {
  begin(0);
  begin(1);
  const std::string said = end();
  EXPECT_EQ(said, "iteration 0 runs at full clocks: its lengths were not told\n") << "the same reason once";
  EXPECT_EQ(others_, "2 began before their lengths were told");
  EXPECT_TRUE(offered().empty());
}

TEST_F(StepClocksTest, LengthsThatChangeTakeAPlanBack) {
  tell(0);
  EXPECT_EQ(offer(0).full_from, 1U);
  told_.tell(0, 0, kLong);
  clocks_->lengths_change(0);
  const Client::IterationPlan again = offer(1);
  EXPECT_EQ(again.iteration, 0U);
  EXPECT_EQ(again.full_from, 0U);
  EXPECT_EQ(clocks_of(again), std::set<int>{kProfiledMhz});
  await_reason(0, "the lengths of replica 0 were changed after they were told");
  begin(0);
  EXPECT_THAT(end(), HasSubstr("iteration 0 runs at full clocks: the lengths of replica 0 were changed after they"));
  EXPECT_EQ(others_, "1 could not be planned");
}

TEST_F(StepClocksTest, LengthsBeyondTheFitAreNotPlanned) {
  tell(0, std::vector<Amounts>(kMicrobatches, {8'000, 9e6}));
  const Client::IterationPlan plan = offer(0);
  EXPECT_EQ(plan.full_from, 0U);
  EXPECT_EQ(clocks_of(plan), std::set<int>{kProfiledMhz});
  await_reason(0, "microbatch 0 of replica 0 has 8000 tokens");
  begin(0);
  EXPECT_THAT(end(), HasSubstr("iteration 0 runs at full clocks: microbatch 0 of replica 0 has 8000 tokens"));
}

TEST_F(StepClocksTest, SaysWhyTheAgentTakesNoPlan) {
  {
    const std::lock_guard lock(mutex_);
    answer_ = {"no agent is used", false};
  }
  tell(0);
  (void)offer(0);
  await_reason(0, "no agent is used");
  begin(0);
  EXPECT_EQ(end(), "iteration 0 has no plan on pipeline rank 0 of replica 0: no agent is used\n");
  EXPECT_EQ(others_, "1 could not be planned");
}

TEST_F(StepClocksTest, PlansTheFirstStepOfAJobThatGoesOn) {
  tell(1'001);
  EXPECT_EQ(offer(0).iteration, 1'001U);
  tell(1'000);
  EXPECT_EQ(offer(1).iteration, 1'000U) << "the lowest one is the first";
  EXPECT_TRUE(eventually([&] { return clocks_->prediction(1'000).time_s > 0; }));
  begin(1'000);
  EXPECT_EQ(offer(2).iteration, 1'001U) << "the agent keeps one plan that waits";
  EXPECT_EQ(end(), "");
  EXPECT_EQ(others_, "");
}

/// No step is lost, however many begin between two looks of the thread.
TEST_F(StepClocksTest, CountsEveryStepOfAnUnbrokenRun) {
  for (std::int64_t step = 500; step < 1'500; ++step) begin(step);
  (void)end();
  EXPECT_EQ(others_, "1000 began before their lengths were told");
}

TEST_F(StepClocksTest, CountsAStepThatBeginsAgain) {
  for (const std::int64_t step : {0, 1, 2}) {
    tell(step);
    EXPECT_EQ(offer(static_cast<std::size_t>(step)).iteration, static_cast<std::uint64_t>(step))
        << "the one before is counted";
    if (step < 2) begin(step);
  }
  begin(1);
  begin(2);
  (void)end();
  EXPECT_EQ(others_, "2 began before their lengths were told") << "what was told before is forgotten";
}

TEST_F(StepClocksTest, PlansOtherDocumentsAfterACheckpoint) {
  tell(0);
  (void)offer(0);
  begin(0);
  tell(1);
  (void)offer(1);
  begin(1);
  tell(2);
  (void)offer(2);
  begin(0);
  tell(1, kLong);
  const Client::IterationPlan again = offer(3);
  EXPECT_EQ(again.iteration, 1U);
  EXPECT_EQ(again.full_from, 2U);
  EXPECT_EQ(clocks_of(again), std::set<int>{kProfiledMhz}) << "this replica is as long as the other one now";
  (void)end();
}

TEST_F(StepClocksTest, GoesBackToACheckpointAndAheadAgain) {
  begin(0);
  begin(100);
  tell(101);
  EXPECT_EQ(offer(0).iteration, 101U);
  begin(101);
  begin(50);
  tell(51);
  EXPECT_EQ(offer(1).iteration, 51U);
  (void)end();
}

}  // namespace
}  // namespace lowgear::client
