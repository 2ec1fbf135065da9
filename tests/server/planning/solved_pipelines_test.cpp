#include "server/planning/solved_pipelines.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/progress.h"
#include "planning/profile/example_profile.h"
#include "server/planning/planning_inputs.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

constexpr int kStages = 3;

/// Built anew with each call: equal, and nothing of it shared.
PipelineProblem problem(double blocking_w = 75, int microbatches = 4) {
  return {.schedule = std::make_shared<const schedule::Schedule>(make_schedule(small_job(kStages, 1, microbatches))),
          .profile = modelled_profile(profile::ExampleGpu{}, profile::TransformerModel{.stages = kStages}),
          .blocking_power_w = std::vector<double>(kStages, blocking_w)};
}

/// Calls a function with each report.
class Reports final : public Progress {
 public:
  explicit Reports(std::function<void(std::string_view)> of) : of_(std::move(of)) {}
  void update(std::string_view activity, double /*fraction*/) override { of_(activity); }

 private:
  std::function<void(std::string_view)> of_;
};

bool is_waiting(std::string_view activity) { return activity.starts_with("waiting"); }

TEST(SolvedPipelines, SolveEqualProblemsOnce) {
  SolvedPipelines pipelines;
  EXPECT_EQ(pipelines.find(problem()), nullptr);
  const auto solved = pipelines.solve(problem(), nullptr);
  EXPECT_EQ(pipelines.solve(problem(), nullptr), solved);
  EXPECT_EQ(pipelines.find(problem()), solved);
}

TEST(SolvedPipelines, TellProblemsApart) {
  SolvedPipelines pipelines;
  const auto solved = pipelines.solve(problem(), nullptr);
  PipelineProblem by_kind = problem();
  by_kind.options.granularity = planner::PlanGranularity::per_stage_kind;
  PipelineProblem slow = problem();
  slow.profile = profile::StageProfile(kStages);
  const PipelineProblem as_profiled = problem();
  for (const profile::StageOp& op : as_profiled.profile.ops()) {
    for (profile::Measurement row : op.measurements) {
      if (op.stage == 1) row.time_s *= 1.2;
      slow.profile.add(op.stage, op.kind, row);
    }
  }
  std::vector<SolvedPipelines::Solved> others;
  for (const PipelineProblem& other : {problem(76), problem(75, 5), by_kind, slow}) {
    EXPECT_FALSE(is_same(other, problem()));
    EXPECT_EQ(pipelines.find(other), nullptr);
    EXPECT_NE(pipelines.solve(other, nullptr), solved);
  }
  EXPECT_EQ(pipelines.solve(problem(), nullptr), solved);
}

TEST(SolvedPipelines, SolveOnceForThreadsThatAskTogether) {
  SolvedPipelines pipelines;
  constexpr std::size_t kThreads = 6;
  std::atomic<int> solvers = 0;
  std::vector<SolvedPipelines::Solved> solved(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        bool solves = false;
        Reports reports([&](std::string_view activity) { solves = solves || !is_waiting(activity); });
        solved[i] = pipelines.solve(problem(), &reports);
        solvers += solves ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(solvers, 1);
  for (const auto& one : solved) EXPECT_EQ(one, solved.front());
}

TEST(SolvedPipelines, PlanAlikeForAll) {
  SolvedPipelines pipelines;
  const auto shared = pipelines.solve(problem(), nullptr);
  const KeptPipeline own(problem(), nullptr);
  EXPECT_FALSE(shared->is_prepared());
  const double fastest_s = shared->fastest_s();
  EXPECT_LE(shared->plan(fastest_s, nullptr).time_s, fastest_s);
  EXPECT_TRUE(shared->is_prepared());
  for (const double slowdown : {1.3, 1.05, 1.6}) {
    const plan::Plan plan = shared->plan(fastest_s * slowdown, nullptr);
    EXPECT_LE(plan.time_s, fastest_s * slowdown);
    EXPECT_EQ(plan.energy_j, own.plan(fastest_s * slowdown, nullptr).energy_j);
  }
}

TEST(SolvedPipelines, DropWhatWasNeededLongestAgo) {
  SolvedPipelines pipelines(2 * action_count(*problem().schedule));
  const auto first = pipelines.solve(problem(75), nullptr);
  (void)pipelines.solve(problem(76), nullptr);
  (void)pipelines.find(problem(75));
  (void)pipelines.solve(problem(77), nullptr);
  EXPECT_EQ(pipelines.find(problem(75)), first);
  EXPECT_EQ(pipelines.find(problem(76)), nullptr);
  EXPECT_NE(pipelines.find(problem(77)), nullptr);
}

TEST(SolvedPipelines, KeepOneThatIsLargerThanTheirRoom) {
  SolvedPipelines pipelines(1);
  const auto first = pipelines.solve(problem(75), nullptr);
  EXPECT_EQ(pipelines.find(problem(75)), first);
  (void)pipelines.solve(problem(76), nullptr);
  EXPECT_EQ(pipelines.find(problem(75)), nullptr);
  EXPECT_GT(first->plan(100, nullptr).time_s, 0);  // the job that has it still plans
}

TEST(SolvedPipelines, KeepNoFailure) {
  SolvedPipelines pipelines;
  Reports stop([](std::string_view) { throw Stopped(); });
  EXPECT_THROW((void)pipelines.solve(problem(), &stop), Stopped);
  EXPECT_EQ(pipelines.find(problem()), nullptr);
  EXPECT_NE(pipelines.solve(problem(), nullptr), nullptr);
  PipelineProblem lacking = problem();
  lacking.profile = profile::StageProfile(kStages);
  for (int i = 0; i < 2; ++i) EXPECT_THROW((void)pipelines.solve(lacking, nullptr), InputError);
}

TEST(SolvedPipelines, LetOneThatWaitsBeginAnewAfterAFailure) {
  SolvedPipelines pipelines;
  std::atomic<bool> first_solves = false;
  std::atomic<bool> second_waits = false;
  std::jthread first([&] {
    Reports reports([&](std::string_view) {
      first_solves = true;
      second_waits.wait(false);
      throw Stopped();
    });
    EXPECT_THROW((void)pipelines.solve(problem(), &reports), Stopped);
  });
  while (!first_solves) std::this_thread::yield();
  Reports reports([&](std::string_view activity) {
    if (!is_waiting(activity)) return;
    second_waits = true;
    second_waits.notify_all();
  });
  EXPECT_NE(pipelines.solve(problem(), &reports), nullptr);
  EXPECT_TRUE(second_waits);
}

TEST(SolvedPipelines, AreNotWaitedForByAJobThatIsOver) {
  SolvedPipelines pipelines;
  std::atomic<bool> first_solves = false;
  std::atomic<bool> second_is_over = false;
  std::jthread first([&] {
    Reports reports([&](std::string_view) {
      first_solves = true;
      second_is_over.wait(false);
    });
    EXPECT_NE(pipelines.solve(problem(), &reports), nullptr);
  });
  while (!first_solves) std::this_thread::yield();
  StopSwitch over;
  over.stop();
  EXPECT_THROW((void)pipelines.solve(problem(), &over), Stopped);
  second_is_over = true;
  second_is_over.notify_all();
}

}  // namespace
}  // namespace lowgear::server
