#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/schedule/generators.h"
#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/published_loop.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using policies::PublishedLoop;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kTransferMs = 1;

protocol::JobSpec envpipe_job(const std::string& reconfig) {
  protocol::JobSpec spec = small_job(3);
  spec.guard_pct = 1'000;
  spec.policy = protocol::JobPolicy::envpipe;
  spec.envpipe.emplace();
  spec.envpipe->reconfig = reconfig;
  spec.envpipe->transfer_ms = kTransferMs;
  return spec;
}

class JobEnvPipe : public testing::Test {
 protected:
  explicit JobEnvPipe(const std::string& reconfig = "balanced") : training(envpipe_job(reconfig)) {}

  /// By op, of the newest plan.
  [[nodiscard]] std::vector<int> clocks_mhz() const {
    std::vector<int> clocks;
    for (const auto& ops : training.record().plans.newest()->plan_of(0).ranks) {
      for (const plan::PlannedOp& op : ops) clocks.push_back(op.clock_mhz);
    }
    return clocks;
  }
  /// EnvPipe's rules, from the clocks of the newest plan on.
  [[nodiscard]] PublishedLoop published(bool greedy) const {
    const schedule::PipelineDag& dag = training.dag();
    const std::vector<int> clocks = clocks_mhz();
    std::vector<std::vector<PublishedLoop::Unit>> units(static_cast<std::size_t>(dag.ranks));
    for (std::size_t op = 0; op < clocks.size(); ++op) {
      units[static_cast<std::size_t>(dag.ops[op].rank)].push_back(
          {dag.ops[op].kind == OpKind::forward ? 'F' : 'B', dag.ops[op].microbatch, clocks[op]});
    }
    return {units,
            {.top_mhz = training.truth().at_max_clock(0, OpKind::forward).clock_mhz, .scale = 4, .greedy = greedy}};
  }
  /// The receives that the ranks have just reported: what no rank sent takes no time.
  void receive(PublishedLoop& loop) const {
    const schedule::PipelineDag& dag = training.dag();
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      const schedule::ComputeOp& unit = dag.ops[op];
      const bool received = unit.kind == OpKind::forward ? unit.rank > 0 : unit.rank + 1 < dag.ranks;
      const auto rank = static_cast<std::size_t>(unit.rank);
      loop.receive(rank, op - static_cast<std::size_t>(dag.rank_begin[rank]),
                   received ? training.waits_s()[op] * 1e3 + kTransferMs : 0);
    }
  }
  [[nodiscard]] bool all_follow(int version) const {
    for (int rank = 0; rank < 3; ++rank) {
      if (training.version_of(rank) != version) return false;
    }
    return true;
  }
  void expect_published_decisions(bool greedy) {
    training.train();
    PublishedLoop loop = published(greedy);
    int decisions = 0;
    for (int i = 0; i < 2'000 && !loop.finished(); ++i) {
      const int newest = training.record().plan_version();
      training.run(1);
      if (!all_follow(newest)) continue;  // the plan has yet to begin
      receive(loop);
      (void)loop.step();
      ++decisions;
      std::vector<int> clocks;
      for (const auto& stage : loop.stages()) {
        for (const PublishedLoop::Unit& unit : stage) clocks.push_back(unit.clock_mhz);
      }
      ASSERT_EQ(clocks_mhz(), clocks) << "decision " << decisions;
    }
    EXPECT_TRUE(loop.finished());
    EXPECT_TRUE(training.record().envpipe.is_finished());
    EXPECT_GT(decisions, 11);
    EXPECT_THAT(training.reasons("envpipe"), Contains(HasSubstr("the clocks are settled")));
  }

  SimulatedJob training;
};

class GreedyJobEnvPipe : public JobEnvPipe {
 protected:
  GreedyJobEnvPipe() : JobEnvPipe("greedy") {}
};

TEST_F(JobEnvPipe, DecidesOnReportedWaitsAsThePublishedLoop) { expect_published_decisions(false); }

TEST_F(GreedyJobEnvPipe, DecidesOnReportedWaitsAsThePublishedLoop) { expect_published_decisions(true); }

TEST_F(JobEnvPipe, KeepsThePlanWhereARankReportsNoWaitsAndSaysWhose) {
  training.hides_waits[1] = true;
  training.train();
  const int version = training.record().plan_version();
  const std::vector<int> clocks = clocks_mhz();
  training.run(10);
  EXPECT_EQ(training.record().plan_version(), version);
  EXPECT_EQ(clocks_mhz(), clocks);
  EXPECT_THAT(training.reasons("envpipe"),
              testing::ElementsAre("no receive was measured of rank 1, F0; the plan stays"));
  training.hides_waits[1] = false;
  training.run(10);
  EXPECT_NE(clocks_mhz(), clocks);
}

TEST_F(JobEnvPipe, ContinuesAfterTheServerWasStartedAgain) {
  training.train();
  training.run(12);
  const policies::EnvPipeState state = training.record().envpipe.state();
  ASSERT_TRUE(state.threshold_s);
  training.restart_server();
  EXPECT_EQ(training.record().envpipe.state(), state);
  training.run(400);
  EXPECT_TRUE(training.record().envpipe.is_finished());
}

protocol::JobSpec early_job(std::vector<int> early_forwards) {
  protocol::JobSpec spec = small_job(3);
  spec.schedule = "envpipe";
  spec.early_forwards = std::move(early_forwards);
  return spec;
}

/// What EnvPipe's policy orders on the profile that the job has measured, by rank.
std::vector<int> ordered_on_profile(const SimulatedJob& training) {
  const schedule::Schedule given = schedule::one_f_one_b_schedule(3, 6);
  const schedule::PipelineDag dag = build_dag(given);
  const profile::StageProfile profile =
      protocol::stage_profile_of(training.record().profiling.own()->cells, dag.stages);
  const std::vector<double> blocking_power_w =
      protocol::blocking_power_of(training.record().profiling.own()->blocking, dag.stages);
  const policies::EnvPipePolicy policy({.extra_activations = {6}});
  const planner::PolicyPlan plan = policy.plan(
      {.schedule = &given, .dag = &dag, .profile = &profile, .blocking_power_w = blocking_power_w, .progress = nullptr},
      std::nullopt);
  std::vector<int> early;
  const schedule::Schedule& order = plan.schedule ? *plan.schedule : given;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const auto first = std::ranges::find(order.ranks[rank], OpKind::backward, &schedule::Action::op);
    early.push_back(static_cast<int>(first - order.ranks[rank].begin()) - (3 - static_cast<int>(rank)));
  }
  return early;
}

TEST(JobOrder, IsAssumedUntilThereIsAProfileAndThenCompared) {
  SimulatedJob training(early_job({}));
  training.register_all();
  EXPECT_THAT(
      training.reasons("order"),
      ElementsAre("no profile fits this job yet: early forwards 3 2 0, those of a backward that takes twice the "
                  "time of a forward"));
  ASSERT_TRUE(training.run_until(JobState::running));
  const std::vector<int> ordered = ordered_on_profile(training);
  ASSERT_EQ(training.reasons("order").size(), 2U);
  EXPECT_THAT(training.reasons("order")[1], HasSubstr(fmt::format("early forwards {}", fmt::join(ordered, " "))));
  EXPECT_EQ(training.record().plans.newest()->plan_of(0).ranks[0].at(5).kind, OpKind::forward) << "the order stays";
  training.restart_server();
  training.run(3);
  EXPECT_EQ(training.reasons("order").size(), 2U) << "it is said once";
}

TEST(JobOrder, FollowsTheTimesInAJobThatStartsAfterTheProfile) {
  SimulatedJob first(early_job({}));
  first.train();
  const std::vector<int> ordered = ordered_on_profile(first);
  SimulatedJob second(early_job(ordered), "j-2");
  second.know({{profile_key(first.record()), first.record().profiling.own()}});
  second.train();
  EXPECT_THAT(second.reasons("order"),
              ElementsAre(fmt::format("early forwards {} are those of the profile's forward and backward times",
                                      fmt::join(ordered, " "))));
}

TEST(JobOrder, IsNoMatterOfOtherSchedules) {
  SimulatedJob training(small_job(3));
  training.train();
  EXPECT_THAT(training.reasons("order"), IsEmpty());
}

}  // namespace
}  // namespace lowgear::server
