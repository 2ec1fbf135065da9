#include "planning/api/plan_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/plan_replays.h"
#include "planning/api/sample_pipeline.h"
#include "planning/profile/switch_latency.h"

namespace lowgear::api {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> times_of(const std::vector<PlanFigures>& plans) {
  std::vector<double> times_s;
  for (const PlanFigures& plan : plans) times_s.push_back(plan.time_s);
  return times_s;
}

TEST(PlanPipeline, HandsOutEveryPlanWithTheFiguresThatAReplayGives) {
  std::vector<int> numbers;
  const PlanReceiver receive = [&](const ProfiledPipeline& pipeline, int number, const plan::Plan& made) {
    numbers.push_back(number);
    const simulator::Timeline timeline = replay_under(pipeline.problem(), clocks_for(made, pipeline.dag), {});
    EXPECT_NEAR(timeline.time_s, made.time_s, 1e-9);
    EXPECT_NEAR(timeline.energy_j_total, made.energy_j, 1e-6);
    EXPECT_EQ(made.gpu_name, "a GPU");
  };
  const PlanResult result = plan(sample_pipeline(), {.deadlines = {.plans = 3}, .gpu_name = "a GPU"}, receive);
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
  ASSERT_EQ(result.plans.size(), 3U);
  EXPECT_NEAR(result.plans.front().deadline_s, result.frontier.vertices.front().time_s, 1e-9);
  EXPECT_NEAR(result.plans.back().deadline_s, result.frontier.vertices.back().time_s, 1e-9);
  EXPECT_TRUE(result.frontier.lower_bound.empty()) << "an exact frontier is its own bound";
  EXPECT_THAT(result.frontier.certificate, HasSubstr("lowgear.certificate/1"));
}

TEST(PlanPipeline, RefusesALeadThatIsLongerThanAnIteration) {
  const auto plan_with = [](double lead_s) {
    return plan(sample_pipeline(), {.deadlines = {.plans = 1}, .clock_lead_s = lead_s});
  };
  EXPECT_THAT(error_of([&] { (void)plan_with(9); }), HasSubstr("clocks change 9 s after the request"));
  const double iteration_s = plan_with(1e-3).baseline.time_s;
  EXPECT_EQ(plan_with(0.99 * iteration_s).shown.clock_lead_s, 0.99 * iteration_s);
  EXPECT_THAT(error_of([&] { (void)plan_with(iteration_s); }), HasSubstr("must be shorter than an iteration"));
}

TEST(PlanPipeline, MakesEqualPlansOnce) {
  std::vector<plan::Plan> made;
  const PlanReceiver receive = [&](const ProfiledPipeline&, int number, const plan::Plan& plan) {
    EXPECT_EQ(number, static_cast<int>(made.size()));
    made.push_back(plan);
  };
  const PlanResult result = plan(sample_pipeline(1), {.deadlines = {.plans = 2000}}, receive);
  EXPECT_EQ(result.plans.size(), made.size());
  EXPECT_LT(made.size(), 2000U);
  EXPECT_GE(made.size(), 2U);
  for (std::size_t i = 1; i < made.size(); ++i) EXPECT_FALSE(has_same_clocks(made[i - 1], made[i])) << i;
}

TEST(PlanPipeline, GivesTheSameAnswerToTheSameRequest) {
  const PlanOptions options{.deadlines = {.plans = 4}};
  const PlanResult first = plan(sample_pipeline(), options);
  const PlanResult second = plan(sample_pipeline(), options);
  EXPECT_EQ(times_of(first.plans), times_of(second.plans));
  EXPECT_EQ(first.frontier.certificate, second.frontier.certificate);
  EXPECT_EQ(write_run(run_file_of(first, options)), write_run(run_file_of(second, options)));
}

TEST(PlanPipeline, PlansADeadlineInTheSameWayByItselfAndAmongOthers) {
  std::vector<plan::Plan> several;
  const PlanReceiver receive = [&](const ProfiledPipeline&, int, const plan::Plan& made) { several.push_back(made); };
  const PlanResult result = plan(sample_pipeline(), {.deadlines = {.plans = 7}}, receive);
  ASSERT_EQ(several.size(), 7U);
  for (const plan::Plan& one : several) {
    const PlanResult alone = plan(sample_pipeline(), {.deadlines = {.deadline_s = one.deadline_s}});
    EXPECT_EQ(alone.shown.energy_j, one.energy_j);
    EXPECT_EQ(alone.shown.time_s, one.time_s);
  }
}

class Silent final : public Progress {
 public:
  void update(std::string_view /*activity*/, double /*fraction*/) override {}
};

/// Work that is done on its thread when it is waited for.
class LateTask final : public StartedTask {
 public:
  explicit LateTask(std::function<void(Progress&)> work) : work_(std::move(work)) {}
  void finish(std::string_view /*activity*/, Progress& progress) override {
    std::jthread([&] { work_(progress); }).join();
    ++finished;
  }
  static inline int finished = 0;

 private:
  std::function<void(Progress&)> work_;
};

TEST(PlanPipeline, GivesTheSameAnswerWhenOtherPoliciesPlanMeanwhile) {
  Silent progress;
  for (const auto method : {planner::FrontierMethod::exact, planner::FrontierMethod::sandwich}) {
    const PlanOptions options{.planner = {.method = method}, .deadlines = {.plans = 2}};
    PlanOptions meanwhile = options;
    meanwhile.start = [](std::function<void(Progress&)> work) { return std::make_unique<LateTask>(std::move(work)); };
    LateTask::finished = 0;
    const PlanResult result = plan(sample_pipeline(), meanwhile, {}, &progress);
    EXPECT_EQ(LateTask::finished, method == planner::FrontierMethod::exact ? 1 : 0) << "Perseus takes long otherwise";
    EXPECT_FALSE(result.policies.empty());
    const PlanResult in_turn = plan(sample_pipeline(), options);
    EXPECT_EQ(write_run(run_file_of(result, meanwhile)), write_run(run_file_of(in_turn, options)));
  }
}

TEST(PlanPipeline, ShowsTheSlowestPlanThatFinishesNoLater) {
  const PlanResult result = plan(sample_pipeline(), {});
  EXPECT_EQ(result.plans.size(), 20U);
  EXPECT_EQ(result.shown_plan, plan_to_show(result.plans, result.baseline.time_s));
  EXPECT_EQ(result.shown.time_s, result.plans[static_cast<std::size_t>(result.shown_plan)].time_s);
  EXPECT_LT(result.shown.energy_j, result.baseline.energy_j);
}

TEST(PlanPipeline, ReplaysThePlanWithLateChangesWhereNoLatencyIsKnown) {
  EXPECT_FALSE(plan(sample_pipeline(), {.deadlines = {.plans = 1}}).late);
  const PlanResult result =
      plan(sample_pipeline(), {.deadlines = {.plans = 1}, .late_s = profile::kAssumedSwitchLatencyS});
  ASSERT_TRUE(result.late);
  EXPECT_EQ(result.late->switch_latency_s, profile::kAssumedSwitchLatencyS);
  EXPECT_EQ(result.late->baseline, result.baseline) << "clocks that never change are never late";
  EXPECT_NE(result.late->plan.energy_j, result.shown.energy_j);
}

TEST(PlanPipeline, PassesOnWhatIsOddAboutTheProfile) {
  ProfiledPipeline pipeline = sample_pipeline();
  pipeline.doubts = {"check the units"};
  const PlanResult result = plan(std::move(pipeline), {.deadlines = {.deadline_s = 100}});
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("later than T*"), "check the units"));
  EXPECT_THAT(result.findings, ElementsAre(HasSubstr("later than T*")));
}

TEST(PlanPipeline, SaysThatAPlanIsFasterThanFullClocks) {
  EXPECT_THAT(plan(sample_pipeline(), {.deadlines = {.plans = 2}}).findings, testing::IsEmpty());
  ProfiledPipeline pipeline = sample_pipeline();
  pipeline.profile = with_faster_second_clock(pipeline.profile);
  const PlanResult result = plan(std::move(pipeline), {.deadlines = {.plans = 2}});
  ASSERT_THAT(result.findings, ElementsAre(HasSubstr("of all clocks at their highest")));
  EXPECT_THAT(result.warnings, Contains(result.findings.front()));
}

TEST(PlanPipeline, RefusesWhatItCannotPlan) {
  const auto error = [](const PlanOptions& options) {
    return error_of([&] { (void)plan(sample_pipeline(), options); });
  };
  EXPECT_THAT(error({.request = {.policy = "maxx"}}), HasSubstr("did you mean max?"));
  EXPECT_THAT(error({.request = {.policy = "max"}, .deadlines = {.plans = 2}}), HasSubstr("one plan at a time"));
  EXPECT_THAT(error({.deadlines = {.deadline_s = 0.01}}),
              AllOf(HasSubstr("cannot be kept"), HasSubstr(" s; give it or a later one")));
  EXPECT_THAT(error({.gpu_name = std::string(plan::kMaxGpuNameBytes + 1, 'x')}), HasSubstr("at most"));
}

TEST(PlanPipeline, IsQuickToVerifyUpToAMillionOps) {
  const ProfiledPipeline pipeline = sample_pipeline();
  EXPECT_TRUE(is_quick_to_verify(pipeline, 20));
  EXPECT_FALSE(is_quick_to_verify(pipeline, 1'000'000));
}

}  // namespace
}  // namespace lowgear::api
