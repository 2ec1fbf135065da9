#include "rivals/policies/envpipe/envpipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/communication.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::policies {
namespace {

using Order = EnvPipeOptions::Order;
using Reconfiguration = EnvPipeOptions::Reconfiguration;
using Type = EnvPipeOptions::Type;
using testing::Each;
using testing::HasSubstr;

planner::PolicyPlan plan_with(const planner::SampleProblem& sample, const EnvPipeOptions& options) {
  return EnvPipePolicy(options).plan(sample.problem(), std::nullopt);
}

int reconfiguring_steps(const planner::PolicyPlan& plan) {
  int total = 0;
  int profiling = 0;
  int reconfiguring = 0;
  EXPECT_EQ(std::sscanf(plan.note.c_str(), "settles after %d training steps (%d profiling, %d reconfiguring)", &total,
                        &profiling, &reconfiguring),
            3)
      << plan.note;
  EXPECT_EQ(total, profiling + reconfiguring);
  return reconfiguring;
}

TEST(EnvPipe, FindsTheTimesOfItsOrderAsItsPolicyDoes) {
  const planner::SampleProblem sample = planner::four_stages(12);
  const planner::PlanningProblem problem = sample.problem();
  const EnvPipeFindings found =
      envpipe_order_findings(*problem.profile, problem.blocking_power_w, 12, {.type = Type::baseline});
  const EnvPipeFindings of_policy = envpipe_findings(problem, {.type = Type::envelope, .order = Order::own});
  EXPECT_EQ(found.optimal_mhz, of_policy.optimal_mhz);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto stage = static_cast<int>(rank);
    EXPECT_EQ(found.stages[rank].forward_time_s,
              problem.profile->at_clock(stage, OpKind::forward, found.optimal_mhz[rank]).time_s);
    EXPECT_EQ(found.stages[rank].backward_time_s, problem.profile->at_max_clock(stage, OpKind::backward).time_s);
  }
  profile::StageProfile lacking(2);
  lacking.add(0, OpKind::forward, {.clock_mhz = 1410, .time_s = 1, .energy_j = 1});
  EXPECT_THROW((void)envpipe_order_findings(lacking, std::vector<double>{75, 75}, 12, {}), InputError);
}

TEST(EnvPipe, UniformRunsEveryStageAtItsOwnBestClock) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const planner::PolicyPlan plan =
      plan_with(sample, {.type = Type::uniform, .order = Order::given, .reconfiguration = Reconfiguration::off});
  // Independent search: all stages at one clock, every 90 MHz from the highest.
  std::vector<int> best(4);
  std::vector<double> least_j(4, std::numeric_limits<double>::infinity());
  for (int clock = 1410; clock >= 855; clock -= 90) {
    const simulator::Timeline timeline =
        replay_clocks(sample.problem(), std::vector<int>(sample.dag().ops.size(), clock));
    std::vector<double> energy_j(4);
    for (std::size_t op = 0; op < sample.dag().ops.size(); ++op) {
      energy_j[static_cast<std::size_t>(sample.dag().ops[op].stage)] += timeline.energy_j[op];
    }
    for (std::size_t stage = 0; stage < 4; ++stage) {
      energy_j[stage] += 80 * (timeline.time_s - timeline.busy_s[stage]);
      if (energy_j[stage] < least_j[stage]) {
        least_j[stage] = energy_j[stage];
        best[stage] = clock;
      }
    }
  }
  EXPECT_LT(best[0], 1410);
  EXPECT_EQ(envpipe_valley_clocks_mhz(sample.problem(), {.type = Type::uniform}), best);
  for (std::size_t op = 0; op < plan.clocks_mhz.size(); ++op) {
    EXPECT_EQ(plan.clocks_mhz[op], best[static_cast<std::size_t>(sample.dag().ops[op].stage)]);
  }
}

TEST(EnvPipe, TheEnvelopeStaysAtTheHighestClock) {
  const planner::SampleProblem sample = planner::four_stages(8);
  for (const auto reconfiguration : {Reconfiguration::off, Reconfiguration::greedy, Reconfiguration::balanced}) {
    const planner::PolicyPlan plan =
        plan_with(sample, {.order = Order::own, .reconfiguration = reconfiguration, .extra_activations = {100}});
    ASSERT_TRUE(plan.schedule);
    const schedule::PipelineDag dag = build_dag(*plan.schedule);
    const std::vector<bool> envelope = outer_envelope(dag);
    ASSERT_EQ(plan.clocks_mhz.size(), envelope.size());
    for (std::size_t op = 0; op < envelope.size(); ++op) {
      EXPECT_TRUE(!envelope[op] || plan.clocks_mhz[op] == 1410) << op;
    }
  }
}

TEST(EnvPipe, ReconfigurationGivesBackMostOfTheLostTime) {
  const planner::SampleProblem sample = planner::four_stages(16);
  const double fastest_s = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem())).time_s;
  for (const auto order : {Order::given, Order::own}) {
    const auto time_s = [&](Reconfiguration reconfiguration) {
      return planner::replay_plan(sample, plan_with(sample, {.order = order, .reconfiguration = reconfiguration}))
          .time_s;
    };
    EXPECT_GT(time_s(Reconfiguration::off), 1.1 * fastest_s);
    EXPECT_LT(time_s(Reconfiguration::balanced), 1.03 * fastest_s);
    EXPECT_LT(time_s(Reconfiguration::greedy), 1.03 * fastest_s);
  }
}

TEST(EnvPipe, ReconfigurationOnlyRaisesClocks) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const planner::PolicyPlan before = plan_with(sample, {.reconfiguration = Reconfiguration::off});
  for (const auto reconfiguration : {Reconfiguration::greedy, Reconfiguration::balanced}) {
    const planner::PolicyPlan after = plan_with(sample, {.reconfiguration = reconfiguration});
    ASSERT_EQ(after.clocks_mhz.size(), before.clocks_mhz.size());
    bool raised = false;
    for (std::size_t op = 0; op < after.clocks_mhz.size(); ++op) {
      EXPECT_GE(after.clocks_mhz[op], before.clocks_mhz[op]);
      raised = raised || after.clocks_mhz[op] > before.clocks_mhz[op];
    }
    EXPECT_TRUE(raised);
  }
}

TEST(EnvPipe, GreedyNeedsManyMoreStepsThanBalanced) {
  const planner::SampleProblem sample = planner::four_stages(16);
  const int off = reconfiguring_steps(plan_with(sample, {.reconfiguration = Reconfiguration::off}));
  const int balanced = reconfiguring_steps(plan_with(sample, {.reconfiguration = Reconfiguration::balanced}));
  const int greedy = reconfiguring_steps(plan_with(sample, {.reconfiguration = Reconfiguration::greedy}));
  EXPECT_EQ(off, 0);
  EXPECT_GT(balanced, 11);
  EXPECT_GT(greedy, 2 * balanced);
}

TEST(EnvPipe, AHigherThresholdSeesLessWaiting) {
  // With a threshold beyond every wait, the path stays on the first rank: no other rank is ever raised.
  const planner::SampleProblem sample = planner::four_stages(8);
  const EnvPipeOptions blind = {.order = Order::given, .threshold_scale = 1e6};
  const planner::PolicyPlan plan = plan_with(sample, blind);
  const planner::PolicyPlan before =
      plan_with(sample, {.order = Order::given, .reconfiguration = Reconfiguration::off});
  for (std::size_t op = 0; op < plan.clocks_mhz.size(); ++op) {
    if (sample.dag().ops[op].rank == 0) {
      EXPECT_EQ(plan.clocks_mhz[op], 1410);
    } else {
      EXPECT_EQ(plan.clocks_mhz[op], before.clocks_mhz[op]);
    }
  }
}

TEST(EnvPipe, ItsOwnOrderCannotHang) {
  for (const int microbatches : {1, 2, 4, 5, 8, 16}) {
    const planner::SampleProblem sample(schedule::one_f_one_b_schedule(4, microbatches),
                                        planner::modelled_profile({0.05, 0.08, 0.03, 0.06}), 80);
    const planner::PolicyPlan plan = plan_with(sample, {.extra_activations = {100}});
    EXPECT_EQ(plan.schedule.has_value(), microbatches > 4) << "with few microbatches it is 1F1B";
    if (!plan.schedule) continue;
    EXPECT_FALSE(find_communication_fault(with_communication(*plan.schedule), schedule::P2pGrouping::adjacent))
        << microbatches;
  }
}

TEST(EnvPipe, MemoryBoundsItsOwnOrder) {
  const planner::SampleProblem sample = planner::four_stages(16);
  const auto peaks = [&](const std::vector<int>& extra) {
    return peak_in_flight_activations(*plan_with(sample, {.extra_activations = extra}).schedule);
  };
  EXPECT_GT(peaks({100})[0], 5);
  EXPECT_THAT(peaks({1}), testing::ElementsAre(5, 4, 3, 1));
  EXPECT_THAT(peaks({2, 2, 1, 0}), testing::ElementsAre(6, 5, 3, 1));
  EXPECT_FALSE(plan_with(sample, {}).schedule) << "never unlimited by itself: 1F1B, as given";
  EXPECT_THAT(plan_with(sample, {}).note, HasSubstr("memory admits none of the early forwards"));
  EXPECT_THROW((void)peaks({1, 1}), InputError);
}

TEST(EnvPipe, TheBaselineRunsTheGivenOrderAtTheStartClock) {
  const planner::SampleProblem sample = planner::four_stages(4);
  const planner::PolicyPlan plan = plan_with(sample, {.type = Type::baseline, .start_clock_mhz = 1350});
  EXPECT_FALSE(plan.schedule);
  EXPECT_THAT(plan.clocks_mhz, Each(1350));
  EXPECT_EQ(reconfiguring_steps(plan), 0);
}

TEST(EnvPipe, StaysWithinItsClocks) {
  const planner::SampleProblem sample = planner::four_stages(8);
  for (const Type type : {Type::uniform, Type::envelope}) {
    const planner::PolicyPlan plan =
        plan_with(sample, {.type = type, .start_clock_mhz = 1350, .lowest_clock_mhz = 990});
    EXPECT_THAT(plan.clocks_mhz, Each(testing::AllOf(testing::Ge(990), testing::Le(1350))));
  }
  EXPECT_THROW((void)plan_with(sample, {.start_clock_mhz = 840, .lowest_clock_mhz = 800}), InputError);
}

TEST(EnvPipe, PrintsAGridForEachStep) {
  std::vector<std::string> grids;
  const planner::SampleProblem sample = planner::four_stages(2);
  planner::PlanningProblem problem = sample.problem();
  const planner::StepReceiver keep = [&](std::string_view text) { grids.emplace_back(text); };
  problem.steps = &keep;
  const planner::PolicyPlan plan = EnvPipePolicy().plan(problem, std::nullopt);
  ASSERT_EQ(grids.size(), static_cast<std::size_t>(reconfiguring_steps(plan)));
  EXPECT_EQ(std::ranges::count(grids.front(), '\n'), 4);
  EXPECT_THAT(grids.front(), testing::StartsWith("Stage 0 | [F0 1410 0.0]"));
  EXPECT_THAT(grids.front(), HasSubstr("\nStage 3 |"));
}

TEST(EnvPipe, RefusesItsOwnOrderWhereARankRunsSeveralStages) {
  const planner::SampleProblem interleaved(schedule::interleaved_schedule(2, 4, 2),
                                           planner::modelled_profile({0.03, 0.03, 0.03, 0.03}), 80);
  EXPECT_THROW((void)plan_with(interleaved, {.order = Order::own}), InputError);
  const planner::PolicyPlan plan = plan_with(interleaved, {.order = Order::given});
  EXPECT_FALSE(plan.schedule);
  EXPECT_EQ(plan.clocks_mhz.size(), interleaved.dag().ops.size());
}

TEST(EnvPipe, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(EnvPipePolicy({.raise_step_mhz = 0}), InputError);
  EXPECT_THROW(EnvPipePolicy({.raise_step_mhz = 2'000'000'000}), InputError);
  EXPECT_THROW(EnvPipePolicy({.profile_step_mhz = -90}), InputError);
  EXPECT_THROW(EnvPipePolicy({.threshold_scale = std::nan("")}), InputError);
  EXPECT_THROW(EnvPipePolicy({.extra_activations = {-1}}), InputError);
  EXPECT_THROW(EnvPipePolicy({.start_clock_mhz = 0}), InputError);
  EXPECT_THROW(EnvPipePolicy({.start_clock_mhz = 900, .lowest_clock_mhz = 990}), InputError);
  EXPECT_THROW(EnvPipePolicy({.transfer_s = -1e-3}), InputError);
}

TEST(EnvPipe, APlanThatIsSlowerThanFullClocksSaysWhy) {
  const planner::SampleProblem sample = planner::four_stages(16);
  const double fastest_s = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem())).time_s;
  const std::vector<EnvPipeOptions> all = {
      {.order = Order::given, .transfer_s = 0.05},
      {.order = Order::given, .transfer_by_link_s = {1e-4, 0.05, 1e-4}},  // the second link leads to another node
      {.type = Type::uniform, .order = Order::given, .reconfiguration = Reconfiguration::off}};
  for (const EnvPipeOptions& options : all) {
    const planner::PolicyPlan plan = plan_with(sample, options);
    const double slowdown = replay_clocks(sample.problem(), plan.clocks_mhz).time_s / fastest_s - 1;
    EXPECT_EQ(plan.note.find("% slower than its highest clock: ") != std::string::npos, slowdown >= 5e-3) << plan.note;
  }
  EXPECT_THROW((void)plan_with(sample, {.transfer_by_link_s = {1e-4}}), InputError);
}

TEST(EnvPipe, SettlesWhateverItsSettings) {
  const planner::SampleProblem sample = planner::four_stages(6);
  for (const int raise_step_mhz : {1, 15, 400, 1'000'000}) {
    for (const double threshold_scale : {0.0, 1.0, 100.0}) {
      for (const double transfer_s : {0.0, 1e-3}) {
        for (const auto reconfiguration : {Reconfiguration::greedy, Reconfiguration::balanced}) {
          const planner::PolicyPlan plan = plan_with(sample, {.reconfiguration = reconfiguration,
                                                              .raise_step_mhz = raise_step_mhz,
                                                              .threshold_scale = threshold_scale,
                                                              .transfer_s = transfer_s});
          EXPECT_GE(reconfiguring_steps(plan), 11);
        }
      }
    }
  }
}

TEST(EnvPipe, OneStageHasNothingToWaitFor) {
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(1, 3), planner::modelled_profile({0.05}), 80);
  EXPECT_THAT(plan_with(sample, {}).clocks_mhz, Each(1410));
}

TEST(EnvPipe, SaysThatItIgnoresADeadline) {
  const planner::SampleProblem sample = planner::four_stages(4);
  const planner::PolicyPlan plan = EnvPipePolicy().plan(sample.problem(), 100.0);
  EXPECT_EQ(plan.clocks_mhz, plan_with(sample, {}).clocks_mhz);
  EXPECT_THAT(plan.note, HasSubstr("ignores the deadline"));
}

}  // namespace
}  // namespace lowgear::policies
